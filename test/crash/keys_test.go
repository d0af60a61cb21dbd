package crash_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
)

// ofKey is how many tasks of a limit key may run at once.
const ofKey = 3

// TestNoMoreOfAKeyRunAtOnceWhateverIsKilled kills a worker again and again, and now and then the server,
// also both, while many tasks of many limit keys wait, most of them of one key. No more of a key run at once
// than may, and all tasks run. For how long fewer of the hot key did is printed.
func TestNoMoreOfAKeyRunAtOnceWhateverIsKilled(t *testing.T) {
	judged := bounds
	judged.OfKey = ofKey
	s := harness.New(t, harness.Options{Client: []sdk.ClientOption{sdk.WithTries(100)}, Bounds: judged})
	server := s.Serve()
	s.Lambda(admin.Lambda{Shards: 4, LimitKeyConcurrency: ofKey, PoisonBound: 100})
	for range 2 {
		s.Worker(harness.WorkerOptions{Slots: 100, Lease: 15 * time.Second})
	}
	victim := s.Supervise(harness.WorkerOptions{Slots: 100})
	hot, others, ofEach := harness.Either(9000, 700), harness.Either(999, 19), harness.Either(1, 8)
	dueWithin, runsFor := harness.Either(2*time.Minute, 12*time.Second), harness.Either(60*time.Millisecond, 100*time.Millisecond)
	acked := s.ScheduleAll(harness.Keyed(hot, others, ofEach, dueWithin, runsFor, 2*time.Second)) // and some outlast a restart

	serverKills, workerKills := harness.Either(30, 3), 0
	killWorker := func() {
		victim.Kill()
		workerKills++
	}
	for i := range serverKills {
		for range 2 {
			time.Sleep(upAtLeast + rand.N(upAtMost-upAtLeast))
			killWorker()
		}
		time.Sleep(rand.N(upAtMost))
		server.Crash()
		if i%2 == 1 {
			killWorker()
		}
		time.Sleep(rand.N(upAtLeast))
		server.Start()
	}
	time.Sleep(upAtMost)
	killWorker()
	last := time.Now()
	s.Finish(acked)

	s.History.NearLimits(ofKey, 0)
	s.History.Shortfalls("keys", harness.HotKey, ofKey)
	got := checker.Summarize(s.History.Events())
	if got.ServerKills != serverKills || got.Deaths < workerKills || got.Acked != len(acked) || s.History.StartsSince(last) == 0 {
		t.Errorf("the run tested too little: %+v", got)
	}
}

package awsfaults_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
)

// limited is a lambda with limits, and tasks that wait for them.
type limited struct {
	name                string
	ofKey, quota        int // that run at once; a quota of 0 is none
	hot, others, ofEach int // tasks of the hot key, other keys, and tasks of each of these
}

// TestNoMoreRunAtOnceWhateverIsKilled kills each of three servers in turn, which comes back as a new process,
// and two workers again and again, while many tasks of many limit keys wait. No more of a key run at once
// than may, nor of all together, and all tasks run.
func TestNoMoreRunAtOnceWhateverIsKilled(t *testing.T) {
	t.Parallel()
	for _, l := range []limited{
		{"keys", 3, 0, harness.Either(2000, 160), harness.Either(222, 19), harness.Either(1, 3)},
		{"keys_and_quota", 3, 8, harness.Either(1000, 150), 19, harness.Either(60, 8)},
	} {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			killWhileLimited(t, l)
		})
	}
}

func killWhileLimited(t *testing.T, l limited) {
	t.Helper()
	s := newSite(t, plan{
		policy: admin.Lambda{Shards: 4, LimitKeyConcurrency: l.ofKey, PoisonBound: 100}, ofKey: l.ofKey, atOnce: l.quota,
	})
	for range 2 {
		s.Serve()
	}
	if l.quota > 0 {
		s.Servers[0].Run("quota", "set", "work", "--concurrency", fmt.Sprint(l.quota)).Must(t)
		time.Sleep(3 * time.Second) // then it holds on all servers
	}
	s.Worker(harness.WorkerOptions{Slots: 100, Lease: patient})
	var victims []*harness.Supervised
	for _, server := range s.Servers[1:] {
		victims = append(victims, s.Supervise(harness.WorkerOptions{Server: server, Others: s.Servers[:1], Slots: 100}))
	}
	dueWithin := harness.Either(2*time.Minute, 20*time.Second)
	// Some tasks run until others have taken over what the killed server owned.
	acked := s.ScheduleAll(harness.Keyed(l.hot, l.others, l.ofEach, dueWithin, 300*time.Millisecond, 9*time.Second))
	kills := 0
	kill := func() {
		victims[kills%2].Kill()
		kills++
	}
	goneFor := []time.Duration{0, up, harness.Either(12*time.Second, 8*time.Second)} // the others take over
	rounds := harness.Either(5, 1)
	for range rounds {
		for i, server := range s.Servers {
			time.Sleep(rand.N(up))
			kill()
			time.Sleep(rand.N(up))
			server.Crash()
			if i == 1 {
				kill()
			}
			time.Sleep(goneFor[i])
			server.Start()
		}
	}
	last := time.Now()
	finish(s, l.name, acked)
	s.History.NearLimits(l.ofKey, l.quota)
	if l.quota == 0 {
		s.History.Shortfalls(l.name, harness.HotKey, l.ofKey)
	}
	got := checker.Summarize(s.History.Events())
	if got.ServerKills != 3*rounds || got.Deaths < kills || got.Acked != len(acked) || s.History.StartsSince(last) == 0 {
		t.Errorf("the run tested too little: %+v", got)
	}
}

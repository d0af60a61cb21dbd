package awsfaults_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
)

// unclaimedMax is what of a quota may lie on SQS for workers (docs/concepts/limits.md), and start besides the rate.
const unclaimedMax = 7 * time.Second

// Servers join and leave while more tasks wait than their lambda's quota lets start. The rate before, during
// and after is printed.
func TestAQuotaWhileServersJoinAndLeave(t *testing.T) {
	t.Parallel()
	rate, phase := harness.Either(100, 20), harness.Either(30*time.Second, 4*time.Second)
	after := harness.Either(5*time.Second, 2*time.Second) // what counts as during a change
	first, most, last := harness.Either(3, 2), harness.Either(6, 3), harness.Either(2, 1)
	s := newSite(t, plan{policy: admin.Lambda{Shards: 4}})
	for len(s.Servers) < first {
		s.Serve()
	}
	for _, server := range s.Servers[:last] {
		s.Worker(harness.WorkerOptions{Server: server, Slots: 3 * rate, Lease: patient})
	}
	s.Servers[0].Run("quota", "set", "work", "--rate", fmt.Sprint(rate)).Must(t)
	time.Sleep(3 * time.Second) // then it holds on all servers

	var acked []sdk.ID
	for wanted := make([]harness.Wanted, rate*10); len(acked) < harness.Either(rate*200, rate*60); {
		acked = append(acked, s.Schedule(wanted...)...)
	}
	p := phases{t: t, history: s.History, rate: rate}
	p.run("to begin with", func() { time.Sleep(phase / 2) })
	p.run(fmt.Sprintf("%d servers", first), func() { time.Sleep(phase) })
	p.run(fmt.Sprintf("%d more join", most-first), func() {
		for len(s.Servers) < most {
			s.Serve()
		}
		time.Sleep(after)
	})
	p.run(fmt.Sprintf("%d servers", most), func() { time.Sleep(phase) })
	p.run(fmt.Sprintf("%d leave", most-last), func() {
		for _, server := range s.Servers[last:] {
			if code := server.Shutdown(); code != 0 {
				t.Errorf("a server ended with %d", code)
			}
		}
		time.Sleep(after)
	})
	p.run(fmt.Sprintf("%d servers", last), func() { time.Sleep(phase) })
	p.total()
	s.Servers[0].Run("quota", "set", "work", "--reset", "rate").Must(t)
	finish(s, "quota", acked)
}

// phases measures starts by what happens meanwhile.
type phases struct {
	t       *testing.T
	history *harness.History
	rate    int

	began time.Time // the first
}

func (p *phases) run(name string, what func()) {
	p.t.Helper()
	began := time.Now()
	if p.began.IsZero() {
		p.began = began
	}
	what()
	n, took := p.history.StartsSince(began), time.Since(began)
	p.t.Logf("FIGURE quota_phase=%q seconds=%.1f starts=%d per_second=%.1f", name, took.Seconds(), n, float64(n)/took.Seconds())
	if n == 0 {
		p.t.Errorf("%s: nothing started in %v", name, took)
	}
}

// total checks that the quota was not exceeded, over all phases.
func (p *phases) total() {
	p.t.Helper()
	n, most := p.history.StartsSince(p.began), float64(p.rate)*(time.Since(p.began)+unclaimedMax).Seconds()
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		harness.Figure(p.t, "quota_loadavg", strings.TrimSpace(string(load)))
	}
	if float64(n) > most {
		p.t.Errorf("%d starts in %v, at most %.0f are allowed", n, time.Since(p.began), most)
	}
}

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

package awsfaults_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/harness"
)

// unclaimedMax is what of a quota may lie on SQS for workers (docs/quotas.md), and start besides the rate.
const unclaimedMax = 7 * time.Second

// Servers join and leave while more tasks wait than their lambda's quota lets start. The rate before, during
// and after is printed: it is what docs/quotas.md has of a long run.
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

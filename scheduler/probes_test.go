package scheduler_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/task"
)

// A gate of a circuit breaker that probes lets so many go in a second, also of what comes due meanwhile, and
// of retries, and no more.
func TestABreakerLetsProbesThrough(t *testing.T) {
	for name, c := range map[string]struct{ backlog, retries, perSecond int }{
		"a backlog":               {5000, 0, 0},
		"only what comes due":     {0, 0, 20},
		"only retries":            {0, 500, 0},
		"retries before new ones": {0, 100, 20},
		"few":                     {0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inGated(t, 10_000, func(g *gated) {
				g.parts.all = []task.Partition{high}
				const pace, seconds = 2, 60
				left, at := 0., start
				g.gating.Pace = func(gate *hold.Gate, _ task.Partition) (bool, task.Instant) {
					now := g.clock.Now()
					left = min(left+now.Sub(at).Seconds()*float64(gate.Pace), pace)
					if at = now; left < 1 {
						return false, now.Add(time.Second / pace)
					}
					left--
					return true, 0
				}
				gate := pauseAll()
				gate.Breaker = &hold.Breaker{Opened: start, Times: 1}
				g.set(gate)
				s := g.settled()
				g.backlog("", c.backlog, time.Hour)
				for range c.retries {
					one := g.awake(high, -time.Minute, backedOff(0))
					s.Awake(&one)
				}
				g.advance(10 * time.Second)
				if n := len(g.sent.fired()); n > 0 {
					t.Fatalf("%d were dispatched while it pauses", n)
				}
				gate.Resumed, gate.Pace, at = g.clock.Now(), pace, g.clock.Now()
				g.set(gate)
				for range seconds {
					for i := range c.perSecond {
						one := g.waiting(high, time.Duration(i)*time.Second/time.Duration(c.perSecond))
						s.Added(&one)
					}
					g.advance(time.Second)
				}
				least, most := pace*seconds*8/10, pace*seconds+pace+1
				if c.perSecond == 1 {
					least = seconds - 7 // a scan every 5 s finds them
				}
				if n := len(g.sent.fired()); n < least || n > most {
					t.Errorf("%d probes in %d s, want %d to %d", n, seconds, least, most)
				}
				g.end(gate)
				g.advance(time.Minute)
				if n, want := len(g.sent.fired()), c.backlog+c.retries+c.perSecond*seconds; n < want {
					t.Errorf("%d of %d were dispatched after it has ended", n, want)
				}
			})
		})
	}
}

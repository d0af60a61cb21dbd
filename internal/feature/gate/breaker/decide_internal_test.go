package breaker

import (
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/feature/gate"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/task"
)

const start = task.Instant(1_700_000_000_000_000)

var half = task.Breaker{Failures: 0.5, Window: time.Minute}

func TestABreakerOpensAtItsShare(t *testing.T) {
	for _, c := range []struct {
		counts
		share float64
		opens bool
	}{
		{counts{0, 19}, 0.5, false}, // too few
		{counts{0, 20}, 0.5, true},
		{counts{10, 10}, 0.5, true},
		{counts{11, 10}, 0.5, false},
		{counts{0, 20}, 1, true},
		{counts{1, 99}, 1, false},
		{counts{99, 1}, 0.01, true},
		{counts{}, 0.01, false},
	} {
		if got := opens(c.counts, task.Breaker{Failures: c.share, Window: time.Minute}); got != c.opens {
			t.Errorf("%+v at %v: %v, want %v", c.counts, c.share, got, c.opens)
		}
	}
}

func TestTheWindowForgets(t *testing.T) {
	var w window
	at := time.Hour
	for range 5 {
		w.add(at, time.Minute, true)
		w.add(at, time.Minute, false)
		at += 10 * time.Second
	}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{0, 10}, {20 * time.Second, 6}, {40 * time.Second, 2}, {time.Minute, 0}, {time.Hour, 0}} {
		if got := w.sum(at+c.after, time.Minute); got.total() != c.want || got.failed != c.want/2 {
			t.Errorf("%v after the last: %+v, want %d", c.after, got, c.want)
		}
	}
	w.add(at+time.Hour, time.Minute, true) // in a slice that was used
	if got := w.sum(at+time.Hour, time.Minute); got != (counts{0, 1}) {
		t.Errorf("after an hour: %+v", got)
	}
}

// steps goes on with a gate until something follows, and returns what, and when that is after now.
func steps(t *testing.T, g *hold.Gate, fresh counts, now task.Instant) (step, time.Duration) {
	t.Helper()
	for after := time.Duration(0); after < time.Hour; after += time.Second {
		what, then := next(*g, fresh, half, now.Add(after))
		if what != stay {
			*g = then
			return what, after
		}
	}
	return stay, 0
}

func TestABreakerProbesAndCloses(t *testing.T) {
	g := open("mail", 7, counts{5, 20}, half, start)
	if err := gate.Validate(g, start); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(g.Reason, "20 of 25 attempts failed in 1m") || g.Owner != hold.BreakerOwner {
		t.Errorf("%+v", g)
	}
	now := start
	wants := []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute, 4 * time.Minute, 8 * time.Minute, 10 * time.Minute, 10 * time.Minute}
	for n, want := range wants {
		what, after := steps(t, g, counts{}, now)
		now = now.Add(after)
		if what != probe || after != want || g.Resumed != now || g.Pace != ProbesPerSecond {
			t.Fatalf("pause %d: %v after %v, %+v; want probes after %v", n+1, what, after, g, want)
		}
		if what, _ = steps(t, g, counts{3, 4}, now); what != count || g.Breaker.Failed != 4 {
			t.Fatalf("7 probes: %v %+v", what, g.Breaker)
		}
		if what, _ = steps(t, g, counts{}, now); what != stay {
			t.Fatalf("nothing new: %v", what)
		}
		if what, _ = steps(t, g, counts{0, 1}, now); what != reopen || g.Probes() || g.Breaker.Times != n+2 || g.Pace != 0 || g.Breaker.Failed != 0 {
			t.Fatalf("5 failed probes: %v %+v", what, g)
		}
	}
	_, after := steps(t, g, counts{}, now)
	now = now.Add(after)
	if what, _ := steps(t, g, counts{9, 0}, now); what != count {
		t.Errorf("9 probes: %v", what)
	}
	if what, _ := steps(t, g, counts{0, 1}, now); what != closes {
		t.Errorf("10 probes, one of which failed: %v", what)
	}
}

// At a share of 1 a single success among the probes closes, and at the smallest a single failure opens.
func TestExtremeShares(t *testing.T) {
	g := open("mail", 7, counts{0, 20}, half, start)
	_, after := next(*g, counts{}, half, start.Add(time.Minute))
	if what, _ := next(after, counts{1, 9}, task.Breaker{Failures: 1, Window: time.Minute}, start); what != closes {
		t.Errorf("%v, want closes", what)
	}
	if what, _ := next(after, counts{0, 10}, task.Breaker{Failures: 1, Window: time.Minute}, start); what != reopen {
		t.Errorf("%v, want reopen", what)
	}
	if what, _ := next(after, counts{0, 1}, task.Breaker{Failures: 0.01, Window: time.Minute}, start); what != reopen {
		t.Errorf("%v, want reopen", what)
	}
}

// After the clock was set back a breaker probes at once, and does not pause until the clock has caught up.
func TestAClockThatWasSetBackEndsThePause(t *testing.T) {
	g := open("mail", 7, counts{0, 20}, half, start)
	if what, _ := next(*g, counts{}, half, start.Add(-time.Hour)); what != probe {
		t.Errorf("%v, want probe", what)
	}
}

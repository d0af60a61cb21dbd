package fleet

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// TestNobodyIsRemovedWhileItCounts cuts processes off in all ways, pauses them and starts others. No process
// removes another one that is sure to count, and who was removed counts anew.
func TestNobodyIsRemovedWhileItCounts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWorld(t)
		knew := map[string][]string{}
		removed := map[string]task.Instant{} // by name: since when it had counted when somebody removed it
		look := func() {
			for _, q := range w.all {
				now := q.Members()
				for _, p := range w.all {
					since, ok := p.Counted()
					switch was, is := slices.Contains(knew[q.Self()], p.Self()), slices.Contains(now, p.Self()); {
					case was && !is && ok:
						r.Fatalf("%s removes %s at %v, which is sure to count", q.Self(), p.Self(), w.virtual.Now().Sub(start))
					case was && !is:
						removed[p.Self()] = since
					}
					if ok && removed[p.Self()] == since {
						r.Fatalf("%s was removed, and counts as before at %v", p.Self(), w.virtual.Now().Sub(start))
					}
				}
				knew[q.Self()] = now
			}
		}
		for range 3 {
			w.join(string(rune('a'+len(w.all))), 0)
		}
		for range rapid.IntRange(5, 30).Draw(r, "steps") {
			p := rapid.SampledFrom(w.all).Draw(r, "process")
			switch rapid.IntRange(0, 6).Draw(r, "event") {
			case 0:
				p.cut = !p.cut
			case 1:
				p.mute = !p.mute
			case 2:
				p.stopped = !p.stopped
			case 3:
				if len(w.all) < 6 {
					w.join(string(rune('a'+len(w.all))), 0)
				}
			default: // time passes
			}
			for range rapid.IntRange(1, 60).Draw(r, "tenths of a second") {
				w.pass(100 * time.Millisecond)
				look()
			}
		}
	})
}

func TestWhoIsCountedKnowsIt(t *testing.T) {
	w, a, _, _ := three(t)
	w.pass(10 * RenewEvery)
	since, ok := a.Counted()
	if !ok || since > w.virtual.Now().Add(-9*RenewEvery) {
		t.Errorf("counts since %v: %v", since, ok)
	}
	a.mute = true
	w.pass(countedMax + RenewEvery)
	if _, ok := a.Counted(); ok {
		t.Error("counts without a renewal")
	}
	a.mute = false
	w.pass(2 * RenewEvery)
	if again, ok := a.Counted(); !ok || again <= since {
		t.Errorf("counts since %v again: %v", again, ok)
	}
	a.Declare(Leaving)
	if _, ok := a.Counted(); ok {
		t.Error("counts while it leaves")
	}
}

// sleepy is the clock of a process on a machine that is suspended at times: its monotonic clock stands still
// then.
type sleepy struct {
	clock.Clock
	slept time.Duration
}

func (c *sleepy) Read() clock.Readings {
	now := c.Now()
	return clock.Readings{Mono: now.Sub(0) - c.slept, Boot: now.Sub(0), Wall: now}
}

// TestWhoWasSuspendedCountsAnew: the others have taken it for gone meanwhile, and may have started tasks that
// it does not know of.
func TestWhoWasSuspendedCountsAnew(t *testing.T) {
	w, a, b, _ := three(t)
	machine := &sleepy{Clock: a.Clock}
	a.Clock = machine
	w.pass(10 * RenewEvery)
	since, ok := a.Counted()
	if !ok {
		t.Fatal("does not count")
	}
	const sleep = 40 * time.Second
	a.stopped = true
	w.pass(sleep)
	w.want(b, "b", "c")
	a.stopped, machine.slept = false, sleep
	if _, ok := a.Counted(); ok {
		t.Error("is sure to count when its machine goes on")
	}
	w.pass(2 * RenewEvery)
	if again, ok := a.Counted(); !ok || again == since {
		t.Errorf("counts since %v, and before since %v: %v", again, since, ok)
	}
}

func TestWhoJoinsDoesNotCount(t *testing.T) {
	w, _, _, _ := three(t)
	d := w.join("d", 0)
	d.Declare(Joining)
	w.pass(2 * RenewEvery)
	if _, ok := d.Counted(); ok {
		t.Error("counts while it joins")
	}
	d.Declare(Ready)
	w.pass(2 * RenewEvery)
	if since, ok := d.Counted(); !ok || since < w.virtual.Now().Add(-2*RenewEvery) {
		t.Errorf("counts since %v: %v", since, ok)
	}
}

func TestAllAgreeWhenEachFollows(t *testing.T) {
	w, a, b, c := three(t)
	members := []string{"a", "b", "c"}
	for _, p := range []*process{b, c} {
		if a.Agree(members) {
			t.Error("agree before all follow")
		}
		p.InForce(members)
		w.pass(2 * RenewEvery)
	}
	if !a.Agree(members) || a.Agree([]string{"a", "b"}) {
		t.Error("they follow these members, and no others")
	}
	c.stopped = true
	c.InForce(nil)
	w.pass(12 * time.Second)
	b.InForce([]string{"a", "b"})
	w.pass(2 * RenewEvery)
	if !a.Agree([]string{"a", "b"}) {
		t.Error("waits for one that is gone")
	}
}

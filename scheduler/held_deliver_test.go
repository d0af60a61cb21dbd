package scheduler_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// A task that a gate holds is not acquired, with a key or without, until the gate ends.
func TestAHeldTaskIsNotAcquired(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		g := o.withGates()
		gate := pauseA()
		g.set(gate)
		s, _ := o.start(self)
		held, free := g.of("a", 2*time.Second), g.of("b", 2*time.Second)
		g.of("a", time.Minute)
		keyed := o.awake(high, 2*time.Second, func(t *task.Task) { t.Collection = "a" })
		s.Added(&held)
		s.Added(&free)
		s.Awake(&keyed)
		o.advance(10 * time.Minute)
		o.wantSent(0, time.Second, free)
		if n := len(o.sendings()); n != 1 {
			t.Errorf("%d sent, want the one that no gate holds", n)
		}
		if row := o.read(keyed.ID); row.State != task.Scheduled {
			t.Errorf("a held task is %s", row.State)
		}
		g.end(gate)
		o.advance(5 * time.Second)
		if n := len(o.sendings()); n != 4 {
			t.Errorf("%d sent after the gate has ended, want all 4", n)
		}
	})
}

// A drop gate ends tasks of a deliver lambda when they are due.
func TestADropGateEndsDeliveries(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		g := o.withGates()
		g.set(dropAll())
		s, _ := o.start(self)
		one := o.waiting(high, 3*time.Second)
		keyed := o.awake(high, 3*time.Second, func(*task.Task) {})
		s.Added(&one)
		s.Awake(&keyed)
		o.advance(2900 * time.Millisecond)
		if row := o.read(keyed.ID); row.State != task.Scheduled {
			t.Errorf("it is %s before it is due", row.State)
		}
		o.advance(10 * time.Second)
		for _, t := range []task.Task{one, keyed} {
			if row := o.read(t.ID); row.State != task.Dropped || row.Ended < t.Due {
				o.t.Errorf("it is %s since %v after it was due", row.State, row.Ended.Sub(t.Due))
			}
		}
		if n := len(o.sendings()); n != 0 || len(o.schedule(high)) != 0 {
			t.Errorf("%d sent, %d rows left", n, len(o.schedule(high)))
		}
	})
}

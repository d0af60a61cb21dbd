package scheduler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

func TestOutages(t *testing.T) {
	var o outages
	fail := func(from, to time.Duration) { // calls fail all the time, then one is answered
		for d := from; d < to; d += 100 * time.Millisecond {
			o.began(at.Add(d))
			o.ended(at.Add(d+50*time.Millisecond), false)
		}
		o.began(at.Add(to))
		o.ended(at.Add(to), true)
	}
	want := func(d time.Duration, end time.Duration) {
		t.Helper()
		instant := task.Instant(0)
		if end != 0 {
			instant = at.Add(end)
		}
		if got := o.lastLonger(d); got != instant {
			t.Errorf("the latest outage longer than %v ended at %v, want %v", d, got.Sub(at), end)
		}
	}
	o.began(at)
	o.ended(at.Add(time.Millisecond), true)
	want(0, 0)
	fail(time.Second, 2*time.Second)
	want(900*time.Millisecond, 2*time.Second)
	want(time.Second, 0)
	fail(10*time.Second, 70*time.Second)
	want(time.Second, 70*time.Second)
	want(59*time.Second, 70*time.Second)
	fail(80*time.Second, 85*time.Second) // a shorter one does not hide the longer one
	want(4*time.Second, 85*time.Second)
	want(6*time.Second, 70*time.Second)
	want(time.Minute, 0)

	o.began(at.Add(100 * time.Second)) // one is under way
	o.ended(at.Add(130*time.Second), false)
	want(29*time.Second, 130*time.Second)
	o.began(at.Add(131 * time.Second))
	o.ended(at.Add(140*time.Second), false)
	want(29*time.Second, 140*time.Second)

	o.began(at.Add(200 * time.Second)) // a call that hangs is an outage as well
	o.ended(at.Add(230*time.Second), true)
	want(90*time.Second, 230*time.Second)
}

func TestOutagesAreBounded(t *testing.T) {
	var o outages
	now := at
	for i := range 100 {
		o.began(now)
		now = now.Add(time.Duration(200-i) * time.Second)
		o.ended(now, true)
	}
	if len(o.past) > outagesMax {
		t.Errorf("%d remembered", len(o.past))
	}
	if o.lastLonger(time.Second) != now {
		t.Error("the latest is forgotten")
	}
}

// While calls come and go, one that hangs says nothing of the others.
func TestASlowCallAmongOthersIsNoOutage(t *testing.T) {
	var o outages
	o.began(at) // and hangs
	for i := range 100 {
		o.began(at.Add(time.Duration(i) * time.Second))
		o.ended(at.Add(time.Duration(i)*time.Second+5*time.Millisecond), true)
	}
	o.ended(at.Add(100*time.Second), true)
	if got := o.lastLonger(0); !got.IsZero() {
		t.Errorf("an outage at %v", got.Sub(at))
	}
}

func TestReclaimLimiter(t *testing.T) {
	var r reclaimLimiter
	if !r.allow(at) {
		t.Fatal("limited without an outage")
	}
	r.reset(at)
	for second, want := range []int{reclaimsPerSecond, reclaimsPerSecond, reclaimsPerSecond} {
		taken := 0
		for range 10_000 {
			if r.allow(at.Add(time.Duration(second) * time.Second)) {
				taken++
			}
		}
		if taken != want {
			t.Errorf("second %d: %d taken back, want %d", second, taken, want)
		}
	}
	total, now := 0, at.Add(3*time.Second)
	for ; total < 100_000; now = now.Add(10 * time.Millisecond) {
		for r.allow(now) && total < 100_000 {
			total++
		}
	}
	if took := now.Sub(at); took < 45*time.Second || took > 75*time.Second {
		t.Errorf("100,000 tasks were taken back in %v", took)
	}
	for range 1 << 20 {
		if !r.allow(at.Add(reclaimsDoublings * reclaimsDouble)) {
			t.Fatal("limited for ever")
		}
	}
}

func TestLeasesHaveThreeHeartbeatsAfterAnOutage(t *testing.T) {
	for _, write := range []bool{false, true} {
		var d storeHealth
		l := lease.Lease{Length: 15 * time.Second, Receipt: at}
		if !d.leaseCountsFrom(&l).IsZero() || !d.mayReclaim(at, &l) {
			t.Error("limited without an outage")
		}
		d.began(at, write)
		d.ended(at.Add(time.Minute), write, fmt.Errorf("read: %w", context.DeadlineExceeded))
		d.began(at.Add(time.Minute), write)
		d.ended(at.Add(61*time.Second), write, fmt.Errorf("%w: somebody else", store.ErrConflict)) // which is an answer
		back := at.Add(61 * time.Second)
		since := d.leaseCountsFrom(&l)
		if beats := 3 * l.HeartbeatEvery(); l.Over(back.Add(beats+task.ClockBound-1), since) || !l.Over(back.Add(beats+task.ClockBound), since) {
			t.Errorf("write %v: the lease counts from %v", write, since.Sub(at))
		}
		long := lease.Lease{Length: 10 * time.Minute, Receipt: at}
		if !d.leaseCountsFrom(&long).IsZero() {
			t.Error("an outage shorter than a heartbeat matters")
		}
		for range reclaimsPerSecond {
			if !d.mayReclaim(back, &l) {
				t.Fatal("too few")
			}
		}
		if d.mayReclaim(back, &l) {
			t.Error("no limit after an outage")
		}
	}
}

// answering is a dispatcher whose second order fails.
type answering struct{ err error }

func (a answering) Dispatch(context.Context, []task.Order) []task.Dispatched {
	return []task.Dispatched{{Done: true}, {Err: fmt.Errorf("dispatch: %w", a.err)}}
}
func (answering) Remove(context.Context, []task.Task)                     {}
func (answering) Send(context.Context, []task.Task)                       {}
func (answering) Room(context.Context, queue.Name) (int, <-chan struct{}) { return 0, nil }

func TestWritesThatGotNoAnswerAreAnOutage(t *testing.T) {
	for _, c := range []struct {
		err    error
		outage bool
	}{{store.ErrUnknown, true}, {store.ErrUnreachable, true}, {store.ErrConflict, false}} {
		health := &storeHealth{}
		d := observedDispatcher{answering{c.err}, observer{clock.NewVirtual(at, 1).Process(0), health}}
		d.Dispatch(t.Context(), make([]task.Order, 2))
		if lasts := !health.writes.trying.IsZero(); lasts != c.outage {
			t.Errorf("%v: the outage lasts: %v", c.err, lasts)
		}
	}
}

func TestACallThatIsGivenUpSaysNothing(t *testing.T) {
	var d storeHealth
	d.began(at, false)
	d.ended(at.Add(time.Minute), false, errors.Join(store.ErrUnknown, context.Canceled))
	if got := d.reads.lastLonger(0); !got.IsZero() {
		t.Errorf("an outage at %v", got.Sub(at))
	}
}

package scheduler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

func TestOutages(t *testing.T) {
	var o outages
	fail := func(from, to time.Duration) { // calls fail all the time, then one is answered
		for d := from; d < to; d += 100 * time.Millisecond {
			o.began(at.Add(d))
			o.refused(at.Add(d + 50*time.Millisecond))
		}
		o.began(at.Add(to))
		o.answered(at.Add(to))
	}
	want := func(d time.Duration, end time.Duration) {
		t.Helper()
		instant := task.Instant(0)
		if end != 0 {
			instant = at.Add(end)
		}
		if got := o.since(d); got != instant {
			t.Errorf("the latest outage longer than %v ended at %v, want %v", d, got.Sub(at), end)
		}
	}
	o.began(at)
	o.answered(at.Add(time.Millisecond))
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
	o.refused(at.Add(130 * time.Second))
	want(29*time.Second, 130*time.Second)
	o.began(at.Add(131 * time.Second))
	o.refused(at.Add(140 * time.Second))
	want(29*time.Second, 140*time.Second)

	o.began(at.Add(200 * time.Second)) // a call that hangs is an outage as well
	o.answered(at.Add(230 * time.Second))
	want(90*time.Second, 230*time.Second)
}

func TestOutagesAreBounded(t *testing.T) {
	var o outages
	now := at
	for i := range 100 {
		o.began(now)
		now = now.Add(time.Duration(200-i) * time.Second)
		o.answered(now)
	}
	if len(o.past) > outagesMax {
		t.Errorf("%d remembered", len(o.past))
	}
	if o.since(time.Second) != now {
		t.Error("the latest is forgotten")
	}
}

// While calls come and go, one that hangs says nothing of the others.
func TestASlowCallAmongOthersIsNoOutage(t *testing.T) {
	var o outages
	o.began(at) // and hangs
	for i := range 100 {
		o.began(at.Add(time.Duration(i) * time.Second))
		o.answered(at.Add(time.Duration(i)*time.Second + 5*time.Millisecond))
	}
	o.answered(at.Add(100 * time.Second))
	if got := o.since(0); !got.IsZero() {
		t.Errorf("an outage at %v", got.Sub(at))
	}
}

func TestRamp(t *testing.T) {
	var r ramp
	if !r.take(at) {
		t.Fatal("limited without an outage")
	}
	r.start(at)
	for second, want := range []int{reclaimsPerSecond, reclaimsPerSecond, reclaimsPerSecond} {
		taken := 0
		for range 10_000 {
			if r.take(at.Add(time.Duration(second) * time.Second)) {
				taken++
			}
		}
		if taken != want {
			t.Errorf("second %d: %d taken back, want %d", second, taken, want)
		}
	}
	total, now := 0, at.Add(3*time.Second)
	for ; total < 100_000; now = now.Add(10 * time.Millisecond) {
		for r.take(now) && total < 100_000 {
			total++
		}
	}
	if took := now.Sub(at); took < 45*time.Second || took > 75*time.Second {
		t.Errorf("100,000 tasks were taken back in %v", took)
	}
	for range 1 << 20 {
		if !r.take(at.Add(reclaimsFree * reclaimsDouble)) {
			t.Fatal("limited for ever")
		}
	}
}

func TestWatchdogKeepsQuietForThreeHeartbeats(t *testing.T) {
	for _, write := range []bool{false, true} {
		var d watchdog
		l := lease.Lease{Length: 15 * time.Second, Receipt: at}
		if !d.quiet(&l).IsZero() || !d.mayReclaim(at, &l) {
			t.Error("quiet without an outage")
		}
		d.began(at, write)
		d.ended(at.Add(time.Minute), write, fmt.Errorf("read: %w", context.DeadlineExceeded))
		d.began(at.Add(time.Minute), write)
		d.ended(at.Add(61*time.Second), write, fmt.Errorf("%w: somebody else", store.ErrConflict)) // which is an answer
		back := at.Add(61 * time.Second)
		since := d.quiet(&l)
		if beats := 3 * l.HeartbeatEvery(); l.Over(back.Add(beats+task.ClockBound-1), since) || !l.Over(back.Add(beats+task.ClockBound), since) {
			t.Errorf("write %v: the lease counts from %v", write, since.Sub(at))
		}
		long := lease.Lease{Length: 10 * time.Minute, Receipt: at}
		if !d.quiet(&long).IsZero() {
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

func TestWritesThatGotNoAnswerAreAnOutage(t *testing.T) {
	for _, c := range []struct {
		err    error
		outage bool
	}{{store.ErrUnknown, true}, {store.ErrUnreachable, true}, {store.ErrConflict, false}} {
		s := &Scheduler{Config: Config{Clock: clock.NewVirtual(at, 1).Process(0)}}
		s.watchWrites(func() []task.Dispatched {
			return []task.Dispatched{{Done: true}, {Err: fmt.Errorf("dispatch: %w", c.err)}}
		})
		if lasts := !s.dog.writes.trying.IsZero(); lasts != c.outage {
			t.Errorf("%v: the outage lasts: %v", c.err, lasts)
		}
	}
}

func TestACallThatIsGivenUpSaysNothing(t *testing.T) {
	var d watchdog
	d.began(at, false)
	d.ended(at.Add(time.Minute), false, errors.Join(store.ErrUnknown, context.Canceled))
	if got := d.reads.since(0); !got.IsZero() {
		t.Errorf("an outage at %v", got.Sub(at))
	}
}

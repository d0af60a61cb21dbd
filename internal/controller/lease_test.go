package controller_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/task"
)

type contextT = context.Context

func causeOf(run *run) error { return context.Cause(run.ctx) }

type refuse struct {
	controller.Backend

	err error
}

func (r refuse) Register(context.Context, *kinesinv1.RegisterRequest) (*kinesinv1.RegisterResponse, error) {
	return nil, r.err
}

func TestHeartbeatsComeFourTimesALease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		before := r.beats()
		r.pass(15 * time.Second)
		if got := r.beats() - before; got != 4 {
			t.Errorf("%d heartbeats in a lease, want 4", got)
		}
	})
}

func TestThreeMissesEndTheHandlersFirst(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1), claimed(2))
		one, two := r.started(), r.started()
		r.ends(one, task.OutcomeSuccess) // lingers
		r.hsc.set(func() { r.hsc.beatErr = errors.New("no route to host") })
		r.pass(2 * 3750 * time.Millisecond)
		if two.ctx.Err() != nil {
			t.Fatal("two misses ended a handler")
		}
		r.pass(3750 * time.Millisecond)
		r.wantCause(two, controller.ErrLeaseLost)
		r.wantRunning()
		sent := len(r.stream().results())
		r.ends(two, task.OutcomeSuccess)
		r.wantEnd(controller.ErrLeaseLost)
		if got := len(r.stream().results()); got != sent {
			t.Error("a result was sent after the lease was lost")
		}
		if r.hooks.exited.Load() != 0 || r.hooks.lost.Load() != 1 {
			t.Errorf("exited %d times, lease lost %d times", r.hooks.exited.Load(), r.hooks.lost.Load())
		}
	})
}

func TestProcessEndsWhenHandlersDoNotObey(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		run := r.started()
		r.hsc.set(func() { r.hsc.beatErr = api.ErrLeaseLost })
		r.pass(3750 * time.Millisecond)
		r.wantCause(run, controller.ErrLeaseLost)
		r.pass(2*time.Second - time.Microsecond)
		if r.hooks.exited.Load() != 0 {
			t.Fatal("the process ended before the margin was over")
		}
		r.pass(time.Microsecond)
		if r.hooks.exited.Load() != 1 {
			t.Fatal("the process was not ended")
		}
		r.wantEnd(controller.ErrLeaseLost)
		r.ends(run, task.OutcomeSuccess)
		r.wantResults()
	})
}

func TestIdleWorkerRegistersAgain(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.hsc.set(func() { r.hsc.beatErr = api.ErrLeaseLost })
		r.pass(3750 * time.Millisecond)
		r.hsc.set(func() { r.hsc.beatErr = nil })
		r.pass(time.Second)
		r.wantRunning()
		if r.hsc.registers != 2 || r.streams() != 2 {
			t.Fatalf("%d registrations and %d streams, want 2 and 2", r.hsc.registers, r.streams())
		}
		r.push(claimed(1))
		r.ends(r.started(), task.OutcomeSuccess)
		r.wantResults("success")
	})
}

func TestLeaseLostOnTheStream(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		run := r.started()
		r.stream().broken <- api.ErrLeaseLost
		r.wantCause(run, controller.ErrLeaseLost)
		r.ends(run, task.OutcomeSuccess)
		r.wantEnd(controller.ErrLeaseLost)
	})
}

// A process that was stopped past its lease goes on with whichever goroutine wakes up first. Each case is one
// of them: the first thing that happens is that the handlers end.
func TestWokenProcessEndsItsHandlersFirst(t *testing.T) {
	t.Parallel()
	const past = 20 * time.Second
	for name, wake := range map[string]func(r *rig, one, two *run){
		"a handler returns": func(r *rig, one, _ *run) {
			one.done <- controller.Outcome{Kind: task.OutcomeSuccess}
			r.pass(2 * time.Millisecond)
		},
		"a handler looks": func(r *rig, one, _ *run) {
			if one.ctx.Err() == nil {
				r.Error("its context lives")
			}
		},
		"a task comes":           func(r *rig, _, _ *run) { r.push(claimed(9)) },
		"a held task is due":     func(r *rig, _, _ *run) { r.pass(100 * time.Millisecond) },
		"the watch on the lease": func(r *rig, _, _ *run) { r.pass(200 * time.Millisecond) },
		"the stream breaks":      func(r *rig, _, _ *run) { r.stream().broken <- errors.New("reset"); r.pass(time.Millisecond) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(r *rig) {
				late := claimed(3)
				late.Hold = 100_000
				r.push(claimed(1), claimed(2), late)
				one, two := r.started(), r.started()
				r.suspend(past)
				wake(r, one, two)
				r.wantNoStart()
				r.wantCause(two, controller.ErrLeaseLost)
				r.wantResults()
				r.ends(two, task.OutcomeSuccess)
				if name != "a handler returns" {
					r.ends(one, task.OutcomeSuccess)
				}
				r.wantEnd(controller.ErrLeaseLost)
				if r.streams() != 1 {
					t.Error("a stream was opened without a lease")
				}
			})
		})
	}
}

func TestHeartbeatAnsweredTooLateRenewsNothing(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		run := r.started()
		answered := make(chan struct{})
		r.hsc.set(func() { r.hsc.beatDelay = answered })
		r.pass(3750 * time.Millisecond) // the heartbeat is on its way
		r.suspend(20 * time.Second)
		before := len(r.stream().results())
		close(answered)
		r.wantCause(run, controller.ErrLeaseLost)
		r.ends(run, task.OutcomeSuccess)
		r.wantEnd(controller.ErrLeaseLost)
		if len(r.stream().results()) != before {
			t.Error("a result was sent")
		}
	})
}

func TestLeaseEndsBeforeTheServerTakesItBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		run := r.started()
		hang := make(chan struct{})
		r.hsc.set(func() { r.hsc.beatDelay = hang }) // heartbeats get no answer at all
		r.pass(12*time.Second + 900*time.Millisecond)
		if run.ctx.Err() == nil {
			r.pass(100 * time.Millisecond)
		}
		r.wantCause(run, controller.ErrLeaseLost)
		r.ends(run, task.OutcomeSuccess)
		r.wantEnd(controller.ErrLeaseLost)
		close(hang)
	})
}

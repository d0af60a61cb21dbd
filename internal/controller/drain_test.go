package controller_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/task"
)

func TestDrainGivesBackWhatHasNotStarted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		late := claimed(2)
		late.Hold = 15_000
		r.push(claimed(1), late)
		run := r.started()
		r.stop()
		r.wantResults("released")
		if !r.stream().drained() {
			t.Error("the server was not told to send no more")
		}
		r.push(claimed(3)) // was on its way
		r.wantResults("released", "released")
		r.pass(9 * time.Second)
		if run.ctx.Err() != nil {
			t.Fatal("the handler was told to stop within the grace")
		}
		r.ends(run, task.OutcomeSuccess)
		r.wantResults("released", "released", "success")
		r.wantRunning()
		r.acknowledge(nil)
		r.wantEnd(nil)
		if r.hsc.left != 1 {
			t.Error("the lease was not ended")
		}
	})
}

func TestHandlersThatObeyAreReleasedWithoutACharge(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1), claimed(2), claimed(3))
		one, two, three := r.started(), r.started(), r.started()
		r.stop()
		r.pass(10 * time.Second)
		r.wantCause(one, controller.ErrDraining)
		r.ends(one, task.OutcomeRetriable)
		r.wantResults("released")
		r.ends(two, task.OutcomeSuccess)
		r.ends(three, task.OutcomeFatal)
		r.wantResults("released", "success", "fatal_failure")
		r.acknowledge(nil)
		r.wantEnd(nil)
	})
}

func TestNoGraceStopsHandlersAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		run := r.started()
		r.stop()
		r.pass(0)
		r.wantCause(run, controller.ErrDraining)
		r.ends(run, task.OutcomeRetriable)
		r.acknowledge(nil)
		r.wantEnd(nil)
	}, func(c *controller.Config) { c.Grace = -1 })
}

func TestHandlersThatDoNotObeyAreAbandoned(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		run := r.started()
		r.stop()
		r.pass(10 * time.Second)
		r.pass(2*time.Second - time.Microsecond)
		r.wantResults()
		r.pass(time.Microsecond)
		r.wantResults("snoozed")
		if delay := r.stream().results()[0].Delay; delay < 100_000 {
			t.Errorf("given back for %d µs from now: this process may not have ended by then", delay)
		}
		r.acknowledge(nil)
		r.wantEnd(controller.ErrAbandoned)
		r.ends(run, task.OutcomeSuccess)
		r.wantResults("snoozed")
	})
}

func TestDrainEndsThoughNobodyAcknowledges(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		r.ends(r.started(), task.OutcomeSuccess)
		r.stop()
		r.pass(5 * time.Second)
		r.wantEnd(nil)
		if r.hsc.left != 0 {
			t.Error("the lease was ended with a result that nobody acknowledged")
		}
	})
}

func TestLeaseLostWhileDraining(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		run := r.started()
		r.stop()
		r.suspend(time.Minute)
		r.pass(200 * time.Millisecond)
		r.wantCause(run, controller.ErrLeaseLost)
		r.ends(run, task.OutcomeSuccess)
		r.wantResults()
		r.wantEnd(controller.ErrLeaseLost)
	})
}

func TestStopBeforeAnything(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.stop()
		r.wantEnd(nil)
	})
}

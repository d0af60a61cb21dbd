package controller_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/task"
)

// A server that sends a claim twice, on one stream, starts its handler once.
func TestAClaimThatComesTwiceStartsOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		run := r.started()
		r.push(claimed(1))
		r.wantNoStart()
		r.ends(run, task.OutcomeSuccess)
	})
}

// The process was suspended past its lease while a heartbeat was on its way: the answer does not bring the
// lease back.
func TestALateAnswerBringsNoLeaseBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1), claimed(2))
		one, two := r.started(), r.started()
		answered := make(chan struct{})
		r.hsc.set(func() { r.hsc.beatDelay = answered })
		r.pass(3750 * time.Millisecond) // the heartbeat is on its way
		r.suspend(20 * time.Second)
		r.ends(one, task.OutcomeSuccess) // finds out that the lease is over
		r.wantCause(two, controller.ErrLeaseLost)
		close(answered)
		r.push(claimed(3))
		r.wantNoStart()
		r.wantResults()
		r.ends(two, task.OutcomeSuccess)
		r.wantEnd(controller.ErrLeaseLost)
	})
}

package controller_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/task"
)

// Running handlers go on, whatever the wall clock shows, and later tasks run too.
func TestASteppedWallClockEndsNoHandler(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		for _, by := range []time.Duration{by, -by} {
			t.Run(by.String(), func(t *testing.T) {
				t.Parallel()
				inBubble(t, func(r *rig) {
					held := claimed(2)
					held.Hold = 5_000_000
					r.push(claimed(1), held)
					one := r.started()
					r.step(by)
					r.pass(4 * time.Second)
					r.wantNoStart()
					r.pass(time.Second)
					two := r.started() // when its hold is over, by no wall clock
					r.pass(time.Minute)
					r.push(claimed(3))
					three := r.started()
					for _, run := range []*run{one, two, three} {
						if run.ctx.Err() != nil {
							t.Fatalf("a handler was told to stop: %v", causeOf(run))
						}
						r.ends(run, task.OutcomeSuccess)
					}
					r.wantRunning()
					if r.hsc.registers != 1 || r.hooks.lost.Load() != 0 {
						t.Errorf("%d registrations, lease lost %d times", r.hsc.registers, r.hooks.lost.Load())
					}
				})
			})
		}
	}
}

// If the lease has ended by the wall clock alone, a heartbeat goes at once, and nothing starts before it is
// accepted.
func TestALeaseThatTheWallClockDoubtsIsConfirmed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		one := r.started()
		answer, before := make(chan struct{}), r.beats()
		r.hsc.set(func() { r.hsc.beatDelay = answer })
		r.step(time.Hour)
		r.pass(200 * time.Millisecond) // the watch on the lease
		if got := r.beats() - before; got != 1 {
			t.Fatalf("%d heartbeats were sent, want one at once", got)
		}
		r.push(claimed(2))
		r.pass(30 * time.Millisecond)
		r.wantNoStart()
		close(answer)
		r.hsc.set(func() { r.hsc.beatDelay = nil })
		two := r.started()
		if one.ctx.Err() != nil || two.ctx.Err() != nil {
			t.Fatal("a handler was told to stop")
		}
		r.ends(one, task.OutcomeSuccess)
		r.ends(two, task.OutcomeSuccess)
		r.wantRunning()
	})
}

// A virtual machine that its host stopped for longer than the lease sees it by the wall clock alone. If no
// server answers, its handlers stop after one heartbeat.
func TestADoubtThatNobodyEndsEndsTheHandlers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		run := r.started()
		r.hsc.set(func() { r.hsc.beatErr = errors.New("no route to host") })
		r.step(time.Hour)
		r.pass(200 * time.Millisecond)
		r.wantCause(run, controller.ErrLeaseLost)
		r.ends(run, task.OutcomeSuccess)
		r.wantEnd(controller.ErrLeaseLost)
	})
}

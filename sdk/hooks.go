package sdk

import (
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/task"
)

// Work is an attempt of a task, as hooks get it.
type Work = Task[[]byte]

// Hooks are functions that a worker calls, from many goroutines. A nil hook is not called.
type Hooks struct {
	Started func(t *Work, late time.Duration)
	Ended   func(t *Work, o Outcome, took time.Duration)
	Fenced  func(t *Work) // an attempt was stopped, or its outcome refused: another one owns the task
	// LeaseHeld is called when the worker has registered, and after each accepted heartbeat, with the time
	// for which the lease certainly holds.
	LeaseHeld func(worker string, left time.Duration)
	LeaseLost func(running int)
	Broken    func(err error) // the stream of tasks broke; the worker opens another one
}

func (h Hooks) forController() controller.Hooks {
	c := controller.Hooks{LeaseHeld: h.LeaseHeld, LeaseLost: h.LeaseLost, Broken: h.Broken}
	if h.Started != nil {
		c.Started = func(w *kinesinv1.Claimed, late time.Duration) { h.Started(taskOf(w), late) }
	}
	if h.Ended != nil {
		c.Ended = func(w *kinesinv1.Claimed, o task.Outcome, took time.Duration) {
			h.Ended(taskOf(w), Outcome(o.String()), took)
		}
	}
	if h.Fenced != nil {
		c.Fenced = func(w *kinesinv1.Claimed) { h.Fenced(taskOf(w)) }
	}
	return c
}

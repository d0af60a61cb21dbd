package testserver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/internal/settle"
	"github.com/kinesin-io/kinesin/queue"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// comesBackWithin is for how long, in real time, a worker that has registered, or whose claim was answered,
	// is expected to claim again. Until then time stands if there is something to claim.
	comesBackWithin = 2 * time.Second
	// startsMax is how often one task may start without time moving on.
	startsMax = 100
)

// workers knows which lambdas have workers that will take a task. The tracker's lock guards it.
type workers struct {
	tracker *settle.Tracker

	registered map[string]registration // that have not left, by worker
	claims     map[string]*claims      // by lambda
	starts     map[task.ID]int         // since time last moved
	spins      string                  // the task that started too often
}

type registration struct {
	lease lease.Lease
	at    task.Instant // in real time
}

// claims are those of all workers of a lambda.
type claims struct {
	waiting int          // for messages
	ended   task.Instant // when the newest ended, in real time
}

// follow returns the workers of the server whose writes the tracker sees.
func follow(t *settle.Tracker) *workers {
	w := &workers{tracker: t, registered: map[string]registration{}, claims: map[string]*claims{}, starts: map[task.ID]int{}}
	t.Noted = w.note
	return w
}

// note learns of starts and leases from a write.
func (w *workers) note(op *store.Op) {
	switch {
	case (op.Kind == store.PutTask || op.Kind == store.ReplaceTask) && op.Task.State == task.Claimed:
		if w.starts[op.Task.ID]++; w.starts[op.Task.ID] > startsMax {
			w.spins = w.tracker.NameOf(op.Task.Partition.Lambda) + " task " + op.Task.ID.String()
		}
	case op.Kind == store.DeleteControl && op.Control.Kind == lease.Kind:
		delete(w.registered, op.Control.Name)
	case op.Kind == store.PutControl && op.Control.Kind == lease.Kind && op.Control.Version == 1:
		var l struct{ Lambdas string }
		if json.Unmarshal(op.Control.Value, &l) == nil {
			w.registered[op.Control.Name] = registration{lease.Lease{Lambdas: l.Lambdas}, clock.Real().Now()}
		}
	}
}

// mayTake reports whether a task is in its queue that a worker takes now, or as soon as it claims again.
func (w *workers) mayTake() bool {
	recent := clock.Real().Now().Add(-comesBackWithin)
	for lambda := range w.tracker.Queued() {
		c := w.claims[lambda]
		claims := c != nil && (c.waiting > 0 || c.ended > recent)
		for _, r := range w.registered {
			if r.lease.Covers(lambda) && (claims || r.at > recent) {
				return true
			}
		}
	}
	return false
}

// spinning returns an error if a task starts again and again without time moving on.
func (w *workers) spinning() error {
	if w.spins == "" {
		return nil
	}
	spins := w.spins
	w.moved()
	return fmt.Errorf("%s started %d times without time moving on; does its handler snooze for no time?", spins, startsMax)
}

// moved notes that time moves on.
func (w *workers) moved() {
	clear(w.starts)
	w.spins = ""
}

// watchedQueue notes who waits for messages.
type watchedQueue struct {
	*queuemem.Driver

	workers *workers
}

// Receive implements queue.Driver.
func (q *watchedQueue) Receive(ctx context.Context, names []queue.Name, limit int, ahead time.Duration) ([]queue.Message, error) {
	q.workers.add(names, 1)
	defer q.workers.add(names, -1)
	return q.Driver.Receive(ctx, names, limit, ahead)
}

// add adds n receivers of queues.
func (w *workers) add(names []queue.Name, n int) {
	w.tracker.Lock()
	defer w.tracker.Unlock()
	for _, name := range names {
		lambda := w.tracker.NameOf(name.Lambda)
		c := w.claims[lambda]
		if c == nil {
			c = &claims{}
			w.claims[lambda] = c
		}
		c.waiting, c.ended = c.waiting+n, clock.Real().Now()
	}
	w.tracker.Signal()
}

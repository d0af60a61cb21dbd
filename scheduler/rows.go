package scheduler

import (
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// brokenRowPause is how long a row is left alone that cannot be moved on.
const brokenRowPause = 30 * time.Second

// holdsSlot reports whether a task is enqueued or runs, as far as its row tells, or has a message without
// having a row.
func holdsSlot(t *task.Task) bool { return !t.State.IsWaiting() || isUnstored(t) }

// isUnstored reports whether a task was sent that has no task row yet.
func isUnstored(t *task.Task) bool {
	return t.State == task.Scheduled && t.Attempt == 0 && !t.Enqueued.IsZero() && t.Enqueues == 0 && t.Wake > t.Due
}

// hasTaskRow reports whether the task of a wake-up row has a task row, however it stands: it has a key, it is
// of a backfill, or the wake-up row holds nothing because the task was moved.
func hasTaskRow(wakeup *task.Task) bool {
	return wakeup.Key != "" || wakeup.IsBare() || wakeup.Occurrence != nil && wakeup.Occurrence.Backfill
}

// leftoverOf returns a wake-up row that no task needs, with what the task row says of its end: who deletes it
// then need not read that again.
func leftoverOf(wakeup, row *task.Task) task.Task {
	t := *wakeup
	t.State, t.Chain = row.State, row.Chain
	return t
}

// firstOrder dispatches the task that a wake-up row holds.
func firstOrder(row *task.Task) task.Order {
	return task.Order{Task: row.Undispatched(), First: true, Event: task.Event{Kind: task.Enqueue}}
}

// isRetry reports whether an order puts a task on its queue that waited in its row.
func isRetry(o task.Order) bool {
	return !o.First && o.Task.State.IsWaiting() && o.Event.Kind == task.Enqueue
}

// spendsRetry reports whether an order starts a task again that has failed. Attempts that were lost with
// their workers, snoozed and redriven tasks are no retries.
func spendsRetry(o *task.Order) bool {
	return o.Task.State == task.RetriableFailure && o.Event.Kind == task.Enqueue
}

// takesStart reports whether an order leads to another start: not one whose message is sent again because
// nobody claimed it, nor one that ends its task.
func takesStart(o *task.Order, now task.Instant) bool {
	switch o.Event.Kind {
	case task.Enqueue:
		return (o.First || isRetry(*o)) && !o.Task.IsExpired(now)
	case task.WorkerLost:
		return true
	default:
		return false
	}
}

func countOrders(orders []task.Order, is func(o task.Order) bool) (n int) {
	for i := range orders {
		if is(orders[i]) {
			n++
		}
	}
	return n
}

// wakesAt returns when a task wakes. A task that was sent or claimed at an instant that lies in the future is
// checked now, because its wake-up was counted from there.
func wakesAt(t *task.Task, now task.Instant) task.Instant {
	if t.State == task.Enqueued && isAhead(t.Enqueued, now) || t.State.IsRunning() && isAhead(t.ClaimedAt, now) {
		return min(t.Wake, now)
	}
	return t.Wake
}

// isPermanent reports whether an error is of one row, and the same with each try.
func isPermanent(err error) bool {
	return store.IsUnreadable(err) || errors.Is(err, store.ErrMalformed) || errors.Is(err, store.ErrTooLarge)
}

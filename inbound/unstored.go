package inbound

import (
	"context"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/task"
)

// The id of a task tells what no row does: the task may be in the buffer, or on the queue of its deliver
// lambda.

const (
	// acceptedWithin is how long after its id was made a task is in the buffer at the latest.
	acceptedWithin = 2 * time.Second
	// clockSkewMax is how far the clock of another process may be off that takes tasks out of the buffer.
	clockSkewMax = time.Second
)

// refreshFor reads the lambdas again if they may have changed in another process and an id depends on them: an id that a
// client made does not say the partition of its task.
func (in *Inbound) refreshFor(ctx context.Context, ids []string) error {
	if !in.Shared || in.Catalog.IsFresh(in.Catalog.Since()) || !slices.ContainsFunc(ids, task.IsInboundToken) {
		return nil
	}
	return in.Catalog.Refresh(ctx)
}

// unstored returns what is known of a task without a row, for as long as the row of an ended task would be
// kept. A task counts as being in the buffer until it is known to have left it; nothing follows a delivery.
// Tasks with a key never go to the buffer.
func (in *Inbound) unstored(token task.Token) (task.Task, bool) {
	t := task.Task{ID: token.ID, Partition: token.Partition, Due: token.Due}
	l := in.Catalog.ByRef(token.Partition.Lambda)
	if l == nil || token.ID.IsDerived() {
		return task.Task{}, false
	}
	t.Created = intake.MadeAt(t.ID)
	now := in.Clock.Now()
	isKept := now < max(t.Due, t.Created).Add(l.Retention) // as the row of an ended task
	switch {
	case l.Mode == task.Deliver && now >= t.Due && (token.Direct || in.Buffering.Backlog.Passed(t.Created.Add(acceptedWithin))):
		t.State = task.Delivered
		return t, isKept
	case token.Direct:
		t.State = task.Enqueued
		return t, true
	}
	t.State = task.Accepted
	return t, in.Buffering.Buffer != nil && isKept && now < t.Created.Add(intake.BufferLifeMax)
}

// mayBeDelivered reports whether a deliver task without a row may be on its queue, or go there from the buffer. No tombstone
// would stop it there.
func (in *Inbound) mayBeDelivered(l *catalog.Entry, token task.Token) bool {
	if l.Mode != task.Deliver {
		return false
	}
	window := time.Duration(0)
	if in.Buffering.Buffer != nil {
		window = max(in.DeliverDirect, in.Near, 0) + clockSkewMax
	}
	return token.Direct || token.Due <= in.Clock.Now().Add(window)
}

func (in *Inbound) isDeliver(lambda uint32) bool {
	l := in.Catalog.ByRef(lambda)
	return l != nil && l.Mode == task.Deliver
}

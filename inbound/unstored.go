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

// open reads a public id of either form.
func (in *Inbound) open(id string) (task.Token, error) {
	if !task.IsInboundToken(id) {
		return in.Sealer.Open(id)
	}
	token, _, err := in.OpenInbound(id)
	return token, err
}

// refreshFor reads the lambdas again if they may have changed in another process and an id depends on them:
// one that a client made does not say the partition of its task.
func (in *Inbound) refreshFor(ctx context.Context, ids []string) error {
	if !in.Shared || in.Catalog.IsFresh(in.Catalog.Since()) || !slices.ContainsFunc(ids, task.IsInboundToken) {
		return nil
	}
	return in.Catalog.Refresh(ctx)
}

// unstored returns what is known of a task without a row. It is known for as long as the row of an ended task
// would be. A task counts as being in the buffer until that is known to have passed it; nothing follows a
// delivery.
func (in *Inbound) unstored(token task.Token) (task.Task, bool) {
	t := task.Task{ID: token.ID, Partition: token.Partition, Due: token.Due}
	l := in.Catalog.ByRef(token.Partition.Lambda)
	if l == nil || token.ID.IsDerived() {
		return task.Task{}, false
	}
	t.Created = intake.MadeAt(t.ID)
	now := in.Clock.Now()
	switch {
	case l.Mode == task.Deliver && now >= t.Due && (token.Direct || in.hasLeftBuffer(t.Created.Add(acceptedWithin))):
		t.State = task.Delivered
		return t, now < max(t.Due, t.Created).Add(l.Retention)
	case token.Direct:
		t.State = task.Enqueued
		return t, true
	}
	t.State = task.Accepted
	return t, in.mayBeBuffered(token)
}

// hasLeftBuffer reports whether a task that was accepted until a moment has come out of the buffer.
func (in *Inbound) hasLeftBuffer(accepted task.Instant) bool {
	return in.Buffering.Buffer == nil || in.Buffering.Backlog.Passed(accepted)
}

// mayBeBuffered reports whether a task without a row may be in the buffer. If it had ended, its row would
// stay for the retention of its lambda, and no message outlives intake.BufferLifeMax. Tasks with a key never
// go to the buffer.
func (in *Inbound) mayBeBuffered(t task.Token) bool {
	if in.Buffering.Buffer == nil || t.ID.IsDerived() {
		return false
	}
	l := in.Catalog.ByRef(t.Partition.Lambda)
	if l == nil {
		return false
	}
	now, made := in.Clock.Now(), intake.MadeAt(t.ID)
	return now < max(t.Due, made).Add(l.Retention) && now < made.Add(intake.BufferLifeMax)
}

// mayBeDelivered reports whether a deliver task without a row may be on its queue: it went there directly, or
// will from the buffer. No tombstone would stop it there.
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

package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// unknownTriesMax is how often a task of an unknown lambda is received before it is rejected: the lambda may
// be newer than the catalog.
const unknownTriesMax = 6

// arrival is a task that comes out of the buffer, or that a person retries after it was rejected.
type arrival struct {
	*kinesinv1.BufferedTask
	tries  int  // how often it was received, this time included
	manual bool // retried by a person, who knows that it may have run already

	// Known once its id was opened:
	due           task.Instant
	redeliverable bool
}

// takeIn stores arrivals, with a result for each.
func (in *Ingest) takeIn(ctx context.Context, arrivals []arrival) []result {
	if len(arrivals) == 0 {
		return nil
	}
	b, end := in.Begin(len(arrivals))
	defer end()
	refreshed := false
	for i := range arrivals {
		a, c := &arrivals[i], &b.Tasks[i]
		c.Item = a.Item
		if task.IsInboundToken(a.Id) {
			c.Way = intake.WayDirect
		}
		c.Err = in.admit(ctx, b, c, a)
		if errors.Is(c.Err, catalog.ErrUnknown) && a.tries >= unknownTriesMax && !refreshed {
			refreshed = true // before it is rejected
			if err := in.Catalog.Refresh(ctx); err != nil {
				c.Err = fmt.Errorf("%w: %w", store.ErrUnknown, err)
				continue
			}
			c.Err = in.admit(ctx, b, c, a)
		}
	}
	in.settleDeleted(ctx, b, arrivals)
	acceptKnown(ctx, b)
	b.SendDirect(ctx)
	b.Write(ctx)
	in.removeOvertaken(ctx, b)
	b.Announce(ctx)
	return in.results(b, arrivals)
}

// results returns what became of arrivals.
func (in *Ingest) results(b *intake.Batch, arrivals []arrival) []result {
	all := make([]result, len(arrivals))
	n, age := 0, time.Duration(0)
	for i := range all {
		all[i] = resultOf(b.Tasks[i].Err, arrivals[i].manual || arrivals[i].tries >= unknownTriesMax)
		if all[i].outcome == stored {
			n++
			age = max(age, b.Now.Sub(task.Instant(arrivals[i].AcceptedMicros)))
			if c := &b.Tasks[i]; in.Hooks.Stored != nil && c.Task != nil && !c.Exists {
				in.Hooks.Stored(c.Task, c.Lambda)
			}
		}
	}
	if n > 0 && in.Hooks.Consumed != nil {
		in.Hooks.Consumed(n, age)
	}
	return all
}

// admit checks an arrival and plans its rows. Its id says what the server that issued it decided, or the
// client that sent it to the buffer; the item says the rest.
func (in *Ingest) admit(ctx context.Context, b *intake.Batch, c *intake.Incoming, a *arrival) error {
	token, l, err := in.openArrival(ctx, a)
	if err != nil {
		return err
	}
	c.ID, a.due, a.redeliverable = a.Id, token.Due, redeliverable(l, token.Due, b.Now)
	if err := checkID(b, token, l, a.Item); err != nil {
		return err
	}
	t, err := b.Build(l, a.Item)
	if err != nil {
		return err
	}
	if t.Partition.Priority != token.Partition.Priority {
		return &notOursError{"its id is of another priority than it asks for"}
	}
	t.ID, t.Due, t.Partition = token.ID, token.Due.CeilMillis(), token.Partition
	c.Task = t
	if err := b.SetExpiry(l, t, a.Item); err != nil {
		return err
	}
	if err := checkStale(b.Now, token, l, a); err != nil {
		return err
	}
	t.Created = min(max(task.Instant(a.AcceptedMicros), b.Now.Add(-intake.BufferLifeMax)), b.Now)
	if a.manual { // the wake-up row of the rejected task may be about to be deleted: this one replaces it
		t.Created, t.Seq, t.WakeRow.Seq = b.Now, uint64(b.Now), uint64(b.Now)
	}
	if l.Deleting {
		return &deletedError{token, l}
	}
	return b.Plan(ctx, c, l, t, t.Due)
}

// checkID refuses an id that no server or client of ours gave to such an item.
func checkID(b *intake.Batch, token task.Token, l *catalog.Entry, item *kinesinv1.ScheduleItem) error {
	switch {
	case item.Lambda != l.Name:
		return &notOursError{"its id is of lambda " + l.Name + ", and it asks for another"}
	case item.Key != "":
		return refusal.Invalid("a task with a key cannot come through the buffer: schedule it through the API")
	case len(item.Then)+len(item.Else)+len(item.Finally) > 0:
		return refusal.Invalid("a task that others follow cannot come through the buffer: schedule it through the API")
	case item.LimitKey != "" && token.Partition != intake.PartitionOf(l, token.Partition.Priority, token.ID, item.LimitKey):
		return refusal.Invalid("a task with a limit key cannot come through the buffer under an id of its client: schedule it through the API")
	case token.ID.IsDerived() || token.ID[6]>>4 != 7:
		return refusal.Invalid("id: want a UUID version 7")
	case intake.IsAhead(token.ID, b.Now):
		return refusal.Invalid("id: its time is more than %v ahead of the server's clock", catalog.IDAheadMax)
	}
	return b.CheckHorizon(token.Due)
}

// openArrival opens the id of an arrival. If its lambda was deleted, a person's retry goes to the lambda that
// has the same name now, under an id of that.
func (in *Ingest) openArrival(ctx context.Context, a *arrival) (task.Token, *catalog.Entry, error) {
	token, l, err := in.openIssued(ctx, a.Id)
	if l != nil || !a.manual || !errors.Is(err, catalog.ErrUnknown) || task.IsInboundToken(a.Id) {
		return token, l, err
	}
	if l, err = in.Catalog.Lambda(a.Item.Lambda); err != nil {
		return token, nil, err
	}
	priority, err := l.Priority(a.Item.Priority)
	if err != nil {
		return token, nil, err
	}
	token.Partition = intake.PartitionOf(l, priority, token.ID, a.Item.LimitKey)
	a.Id = in.Sealer.Seal(token)
	return token, l, nil
}

// openIssued opens an id and finds its lambda. A lambda that is not known may be known soon.
func (in *Ingest) openIssued(ctx context.Context, id string) (task.Token, *catalog.Entry, error) {
	if task.IsInboundToken(id) {
		token, l, err := in.OpenInbound(ctx, id)
		if errors.Is(err, task.ErrBadID) {
			err = &notOursError{"its id was not issued with our inbound key"}
		}
		return token, l, err
	}
	token, err := in.Sealer.Open(ctx, id)
	if err != nil {
		return token, nil, &notOursError{"its id was not issued here"}
	}
	l := in.Catalog.ByRef(token.Partition.Lambda)
	if l == nil {
		return token, nil, &deletedError{token: token}
	}
	if int(token.Partition.Priority) >= len(l.Priorities) {
		return token, nil, &notOursError{"its id is of a priority that the lambda does not have"}
	}
	return token, l, nil
}

// checkStale refuses an arrival that came before and may have run since: the row that would tell is kept only
// for the retention of its lambda.
func checkStale(now task.Instant, token task.Token, l *catalog.Entry, a *arrival) error {
	if a.tries <= 1 || a.manual {
		return nil
	}
	if now < max(token.Due, task.Instant(a.AcceptedMicros)).Add(l.Retention) {
		return nil
	}
	return &staleError{fmt.Sprintf("it was received again later than %v, the retention of its lambda, after it was due: it may have run already; "+
		"a retry runs it", l.Retention)}
}

// acceptKnown settles arrivals that get no row of their own and have a task row: deliver tasks that were
// cancelled in the buffer, whose tombstones are the only rows that they ever have; and those that seem stale
// though their rows are still kept.
func acceptKnown(ctx context.Context, b *intake.Batch) {
	some := b.Select(func(c *intake.Incoming) bool {
		_, isStale := errors.AsType[*staleError](c.Err)
		return isStale || c.IsDirect()
	})
	b.ReadRows(ctx, some, func(c *intake.Incoming, row *task.Task) {
		if !row.ID.IsZero() {
			c.Err, c.Exists = nil, true
		}
	})
}

// removeOvertaken deletes wake-up rows that were put here and whose task has a task row that does not need
// them: it was cancelled while it was in the buffer, or came again after it was dispatched. A cancel puts the
// task row and then looks for a wake-up row; here it is the other way round, so that at least one of the two
// sees the other's. The wake-up row of a task in flight stays: it wakes the task.
func (in *Ingest) removeOvertaken(ctx context.Context, b *intake.Batch) {
	var removals []store.Op
	var of []*intake.Incoming
	var ended []task.Task
	alone := b.Select(func(c *intake.Incoming) bool { return c.Err == nil && c.IsAlone() })
	b.ReadRows(ctx, alone, func(c *intake.Incoming, row *task.Task) {
		if row.ID.IsZero() {
			return
		}
		c.Exists = true
		if put := c.Wakeup(); !row.IsBare() && !intake.Needs(row, put) { // a row that cannot be read is left as it is
			removals, of = append(removals, store.RemoveLast(put)), append(of, c)
		}
		if row.State.IsEnd() {
			ended = append(ended, *row)
		}
	})
	if len(removals) == 0 {
		return
	}
	for k, err := range store.Outcomes(ctx, b.Store, removals) {
		if !errors.Is(err, store.ErrConflict) {
			of[k].Err = err
		}
	}
	if len(ended) > 0 {
		in.Scheduler.Done(ended)
	}
}

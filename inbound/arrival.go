package inbound

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// arrival is a task that comes out of the buffer.
type arrival struct {
	*kinesinv1.BufferedTask
	tries  int  // how often it came, this time included
	forced bool // by a person who knows that it may have run already

	// Known once its id was opened:
	due   task.Instant
	lasts bool // its row would refuse it if it came again soon
}

// verdict is what became of an arrival.
type verdict uint8

const (
	taken    verdict = iota // it is in the store
	later                   // the store did not take it
	unknown                 // its lambda is not known
	rejected                // it will never be taken as it is
)

type fate struct {
	verdict verdict
	reason  string // of a rejection
	err     error
}

// takeIn stores arrivals, in the same way as Schedule does, with a fate for each.
func (in *Inbound) takeIn(ctx context.Context, arrivals []arrival) []fate {
	if len(arrivals) == 0 {
		return nil
	}
	defer in.intakes.begin()()
	b := newIntake(in, len(arrivals))
	refreshed := false
	for i := range arrivals {
		a, c := &arrivals[i], &b.tasks[i]
		c.item = a.Item
		if task.IsInboundToken(a.Id) {
			c.way = WayDirect
		}
		c.err = b.admitArrival(ctx, c, a)
		if errors.Is(c.err, catalog.ErrUnknown) && a.tries >= unknownTriesMax && !refreshed {
			refreshed = true // before it is set aside
			if err := in.Catalog.Refresh(ctx); err != nil {
				c.err = fmt.Errorf("%w: %w", store.ErrUnknown, err)
				continue
			}
			c.err = b.admitArrival(ctx, c, a)
		}
	}
	b.settleDeleted(ctx, arrivals)
	b.forgetCancelled(ctx)
	b.deliver(ctx)
	b.recall(ctx)
	b.store(ctx)
	b.removeOvertaken(ctx)
	b.announce(ctx)
	return b.fates(arrivals)
}

// fates says what became of arrivals.
func (b *intake) fates(arrivals []arrival) []fate {
	all := make([]fate, len(arrivals))
	n, age := 0, time.Duration(0)
	for i := range all {
		all[i] = fateOf(b.tasks[i].err, &arrivals[i])
		if all[i].verdict == taken {
			n++
			age = max(age, b.now.Sub(task.Instant(arrivals[i].AcceptedMicros)))
		}
	}
	if n > 0 && b.Hooks.Consumed != nil {
		b.Hooks.Consumed(n, age)
	}
	return all
}

// admitArrival validates an arrival and plans its write. Its id says what the server that issued it decided,
// or who sent it to the buffer; the item says the rest.
func (b *intake) admitArrival(ctx context.Context, c *incoming, a *arrival) error {
	token, l, err := b.openArrival(a)
	if err != nil {
		return err
	}
	c.id, a.due, a.lasts = a.Id, token.Due, lasts(l, token.Due, b.now)
	switch {
	case a.Item.Lambda != l.Name:
		return &notOursError{"its id is of lambda " + l.Name + ", and it asks for another"}
	case a.Item.Key != "":
		return refusal.Invalid("a task with a key cannot come through the buffer: schedule it through the API")
	case token.ID.IsDerived() || token.ID[6]>>4 != 7:
		return refusal.Invalid("id: want a UUID version 7")
	case isAhead(token.ID, b.now):
		return refusal.Invalid("id: its time is more than %v ahead of the server's clock", catalog.IDAheadMax)
	case token.Due > b.now.Add(b.Horizon):
		return b.tooFar()
	}
	t, err := b.build(l, a.Item)
	if err != nil {
		return err
	}
	if t.Partition.Priority != token.Partition.Priority {
		return &notOursError{"its id is of another priority than it asks for"}
	}
	t.ID, t.Due, t.Partition = token.ID, token.Due.CeilMillis(), token.Partition
	c.task, c.wanted = t, t.Due
	if err := b.checkStale(token, l, a); err != nil {
		return err
	}
	t.Created = min(max(task.Instant(a.AcceptedMicros), b.now.Add(-bufferLife)), b.now)
	if a.forced { // a wake-up row may be about to be deleted as it was when it was set aside: this one replaces it, and is new
		t.Created, t.Seq, t.WakeRow.Seq = b.now, uint64(b.now), uint64(b.now)
	}
	if l.Deleting {
		return &deletedError{token, l}
	}
	return b.plan(ctx, c, l, t)
}

// openArrival is openIssued for an arrival. What a person retries goes to the lambda of the same name if its
// own was deleted, under an id of that.
func (b *intake) openArrival(a *arrival) (task.Token, *catalog.Entry, error) {
	token, l, err := b.openIssued(a.Id)
	if l != nil || !a.forced || !errors.Is(err, catalog.ErrUnknown) || task.IsInboundToken(a.Id) {
		return token, l, err
	}
	if l, err = b.Catalog.Lambda(a.Item.Lambda); err != nil {
		return token, nil, err
	}
	priority, err := l.Priority(a.Item.Priority)
	if err != nil {
		return token, nil, err
	}
	token.Partition = partitionOf(l, priority, token.ID)
	a.Id = b.Sealer.Seal(token)
	return token, l, nil
}

// openIssued finds the lambda of an id. One that it does not know may be known soon.
func (b *intake) openIssued(id string) (task.Token, *catalog.Entry, error) {
	if task.IsInboundToken(id) {
		token, l, err := b.openInbound(id)
		if errors.Is(err, task.ErrBadID) {
			err = &notOursError{"its id was not issued with our inbound key"}
		}
		return token, l, err
	}
	token, err := b.Sealer.Open(id)
	if err != nil {
		return token, nil, &notOursError{"its id was not issued here"}
	}
	l := b.Catalog.ByRef(token.Partition.Lambda)
	if l == nil {
		return token, nil, &deletedError{token: token}
	}
	if int(token.Partition.Priority) >= len(l.Priorities) {
		return token, nil, &notOursError{"its id is of a priority that the lambda does not have"}
	}
	return token, l, nil
}

// checkStale refuses what has come before and may have run since: the row that would tell is kept for the
// lambda's retention only.
func (b *intake) checkStale(token task.Token, l *catalog.Entry, a *arrival) error {
	if a.tries <= 1 || a.forced {
		return nil
	}
	if b.now < max(token.Due, task.Instant(a.AcceptedMicros)).Add(l.Retention) {
		return nil
	}
	return &staleError{fmt.Sprintf("it came again later than %v, the retention of its lambda, after it was due: it may have run, and no row tells; "+
		"a retry runs it", l.Retention)}
}

// recall settles what seems stale and is remembered all the same: a row may be kept for longer than it has to
// be.
func (b *intake) recall(ctx context.Context) {
	stale := b.those(func(c *incoming) bool {
		_, is := errors.AsType[*staleError](c.err)
		return is
	})
	b.readRows(ctx, stale, func(c *incoming, row *task.Task) {
		if !row.ID.IsZero() {
			c.err, c.known = nil, true
		}
	})
}

// notOursError is an arrival that nobody may have sent.
type notOursError struct{ text string }

func (e *notOursError) Error() string { return e.text }

// staleError is an arrival that may have run already.
type staleError struct{ text string }

func (e *staleError) Error() string { return e.text }

// removeOvertaken takes wake-up rows back whose task has a task row that does not need them: it was cancelled
// while it was in the buffer, or came a second time after it was dispatched. Who cancels puts the task row
// and then looks for a wake-up row, here it is the other way round, so that at least one of the two sees the
// other's. The row of a task in flight stays: it wakes it.
func (b *intake) removeOvertaken(ctx context.Context) {
	var removals []store.Op
	var of []*incoming
	var ended []task.Task
	alone := b.those(func(c *incoming) bool { return c.err == nil && c.isAlone() })
	b.readRows(ctx, alone, func(c *incoming, row *task.Task) {
		if row.ID.IsZero() {
			return
		}
		c.known = true
		if put := &c.chain[0].Task; !row.IsBare() && !needs(row, put) { // one that is there and cannot be read is left alone
			removals, of = append(removals, store.RemoveLast(put)), append(of, c)
		}
		if row.State.IsEnd() {
			ended = append(ended, *row)
		}
	})
	if len(removals) == 0 {
		return
	}
	outcomes, err := b.Store.Apply(ctx, removals)
	for k, c := range of {
		if outcome := outcomeOf(outcomes, k, err); !errors.Is(outcome, store.ErrConflict) {
			c.err = outcome
		}
	}
	if len(ended) > 0 {
		b.Scheduler.Done(ended)
	}
}

// lastingReasons are the refusals that another try will not change.
var lastingReasons = map[kinesinv1.Reason]string{
	kinesinv1.Reason_REASON_TOO_LARGE:    ReasonTooLarge,
	kinesinv1.Reason_REASON_INVALID:      ReasonInvalid,
	kinesinv1.Reason_REASON_KEY_CONFLICT: ReasonInvalid,
	kinesinv1.Reason_REASON_UNSUPPORTED:  ReasonInvalid,
}

// fateOf is what an error of the intake means for an arrival.
func fateOf(err error, a *arrival) fate {
	if err == nil {
		return fate{verdict: taken}
	}
	var foreign *notOursError
	var stale *staleError
	switch {
	case errors.Is(err, catalog.ErrDeleting):
		return fate{verdict: unknown, err: err}
	case errors.Is(err, catalog.ErrUnknown):
		if a.tries < unknownTriesMax && !a.forced {
			return fate{verdict: unknown, err: err}
		}
		return fate{rejected, ReasonUnknownLambda, fmt.Errorf("%w, then retry", err)}
	case errors.As(err, &foreign):
		return fate{rejected, ReasonNotOurs, err}
	case errors.As(err, &stale):
		return fate{rejected, ReasonStale, err}
	case errors.Is(err, store.ErrMalformed):
		return fate{rejected, ReasonInvalid, err}
	}
	if reason, lasting := lastingReasons[refusal.Problem(err).Reason]; lasting {
		return fate{rejected, reason, err}
	}
	return fate{verdict: later, err: err}
}

// problemOf is a fate as the answer to a call.
func (f *fate) problem() *kinesinv1.Problem {
	switch f.verdict {
	case taken:
		return nil
	case rejected:
		return api.ProblemOf(refusal.Invalid("%s: %v", f.reason, f.err))
	case later, unknown:
	}
	return refusal.Problem(f.err)
}

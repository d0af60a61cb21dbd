package inbound

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/catalog"
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
	b.issued, b.errs = make([]string, len(arrivals)), make([]error, len(arrivals))
	refreshed := false
	for i := range arrivals {
		b.issued[i] = arrivals[i].Id
		err := b.admitArrival(ctx, i, &arrivals[i])
		if errors.Is(err, catalog.ErrUnknown) && arrivals[i].tries >= unknownTriesMax && !refreshed {
			refreshed = true // before it is set aside
			if refreshErr := in.Catalog.Refresh(ctx); refreshErr != nil {
				b.errs[i] = fmt.Errorf("%w: %w", store.ErrUnknown, refreshErr)
				continue
			}
			err = b.admitArrival(ctx, i, &arrivals[i])
		}
		b.errs[i] = err
	}
	b.settleDeleted(ctx, arrivals)
	b.deliver(ctx)
	b.recall(ctx)
	alone := b.aloneItems()
	b.store(ctx)
	b.removeOvertaken(ctx, alone)
	b.announce(ctx)
	fates := make([]fate, len(arrivals))
	for i, err := range b.errs {
		fates[i] = fateOf(err, &arrivals[i])
	}
	b.consumed(arrivals, fates)
	return fates
}

func (b *intake) consumed(arrivals []arrival, fates []fate) {
	n, age := 0, time.Duration(0)
	for i := range fates {
		if fates[i].verdict == taken {
			n++
			age = max(age, b.now.Sub(task.Instant(arrivals[i].AcceptedMicros)))
		}
	}
	if n > 0 && b.Hooks.Consumed != nil {
		b.Hooks.Consumed(n, age)
	}
}

// admitArrival validates an arrival and plans its write. Its id says what the server that issued it decided, or who sent it
// to the buffer; the item says the rest.
func (b *intake) admitArrival(ctx context.Context, i int, a *arrival) error {
	token, l, err := b.openArrival(i, a)
	if err != nil {
		return err
	}
	item := a.Item
	a.due, a.lasts = token.Due, lasts(l, token.Due, b.now)
	switch {
	case item.Lambda != l.Name:
		return &notOursError{"its id is of lambda " + l.Name + ", and it asks for another"}
	case item.Key != "":
		return invalid("a task with a key cannot come through the buffer: schedule it through the API")
	case token.ID.IsDerived() || token.ID[6]>>4 != 7:
		return invalid("id: want a UUID version 7")
	case isAhead(token.ID, b.now):
		return invalid("id: its time is more than %v ahead of the server's clock", catalog.IDAheadMax)
	case token.Due > b.now.Add(b.Horizon):
		return b.tooFar()
	}
	t, err := b.build(l, item)
	if err != nil {
		return err
	}
	if t.Partition.Priority != token.Partition.Priority {
		return &notOursError{"its id is of another priority than it asks for"}
	}
	if err := b.checkStale(token, l, a); err != nil {
		return err
	}
	t.ID, t.Due, t.Partition = token.ID, token.Due.CeilMillis(), token.Partition
	t.Created = min(max(task.Instant(a.AcceptedMicros), b.now.Add(-bufferLife)), b.now)
	if a.forced { // a wake-up row may be about to be deleted as it was when it was set aside: this one replaces it, and is new
		t.Created, t.Seq, t.WakeRow.Seq = b.now, uint64(b.now), uint64(b.now)
	}
	if l.Deleting {
		return &deletedError{token, l}
	}
	return b.plan(ctx, i, l, &t, item.Payload)
}

// openArrival is openIssued for an arrival. What a person retries goes to the lambda of the same name if its own was deleted, under
// an id of that.
func (b *intake) openArrival(i int, a *arrival) (task.Token, *catalog.Entry, error) {
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
	b.issued[i] = a.Id
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

// checkStale refuses what has come before and may have run since: the row that would tell is kept for the lambda's
// retention only.
func (b *intake) checkStale(token task.Token, l *catalog.Entry, a *arrival) error {
	if a.tries <= 1 || a.forced {
		return nil
	}
	if b.now < max(token.Due, task.Instant(a.AcceptedMicros)).Add(l.Retention) {
		return nil
	}
	return &staleError{token.ID, fmt.Sprintf("it came again later than %v, the retention of its lambda, after it was due: it may have run, and no row tells; "+
		"a retry runs it", l.Retention)}
}

// recall settles what seems stale and is remembered all the same: a row may be kept for longer than it has to be.
func (b *intake) recall(ctx context.Context) {
	var ids []task.ID
	var at []int
	for i, err := range b.errs {
		if stale, found := errors.AsType[*staleError](err); found {
			ids, at = append(ids, stale.id), append(at, i)
		}
	}
	if len(ids) == 0 {
		return
	}
	rows, err := b.Store.Tasks(ctx, ids)
	for n, i := range at {
		switch {
		case err != nil:
			b.errs[i] = fmt.Errorf("%w: %w", store.ErrUnknown, err)
		case !rows[n].ID.IsZero():
			b.errs[i] = nil
		}
	}
}

// notOursError is an arrival that nobody may have sent.
type notOursError struct{ text string }

func (e *notOursError) Error() string { return e.text }

// staleError is an arrival that may have run already.
type staleError struct {
	id   task.ID
	text string
}

func (e *staleError) Error() string { return e.text }

// aloneItems are the items that are stored as a wake-up row alone.
func (b *intake) aloneItems() (items []int) {
	for k := range b.deciding() {
		if b.ops[k].Kind == store.PutWakeup {
			items = append(items, b.itemOf[k])
		}
	}
	return items
}

// removeOvertaken takes wake-up rows back whose task has a task row that does not need them: it was cancelled
// while it was in the buffer, or came a second time after it was dispatched. Who cancels puts the task row
// and then looks for a wake-up row, here it is the other way round, so that at least one of the two sees the
// other's. The row of a task in flight stays: it wakes it.
func (b *intake) removeOvertaken(ctx context.Context, items []int) {
	places := b.places()
	var ids []task.ID
	var at []int
	for _, i := range items {
		if k, open := places[i]; open && b.errs[i] == nil {
			ids, at = append(ids, b.ops[k].Task.ID), append(at, k)
		}
	}
	if len(ids) == 0 {
		return
	}
	rows, err := b.Store.Tasks(ctx, ids)
	if err != nil {
		for _, k := range at {
			b.errs[b.itemOf[k]] = fmt.Errorf("%w: %w", store.ErrUnknown, err)
		}
		return
	}
	var removals []store.Op
	var of []int
	var ended []task.Task
	for n := range rows {
		if rows[n].ID.IsZero() {
			continue
		}
		op := &b.ops[at[n]]
		op.Kind = 0
		if !rows[n].IsBare() && !needs(&rows[n], &op.Task) { // one that is there and cannot be read is left alone
			removals, of = append(removals, removeNow(&op.Task)), append(of, b.itemOf[at[n]])
		}
		if rows[n].State.IsEnd() {
			ended = append(ended, rows[n])
		}
	}
	if len(removals) == 0 {
		return
	}
	outcomes, err := b.Store.Apply(ctx, removals)
	for n, i := range of {
		if outcome := outcomeOf(outcomes, n, err); outcome != nil && !errors.Is(outcome, store.ErrConflict) {
			b.errs[i] = outcome
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
	if reason, lasting := lastingReasons[problem(err).Reason]; lasting {
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
		return api.ProblemOf(invalid("%s: %v", f.reason, f.err))
	case later, unknown:
	}
	return problem(f.err)
}

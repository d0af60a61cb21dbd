package ingest

import (
	"context"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// arrival is a task that comes out of the buffer, or that a person retries after it was rejected.
type arrival struct {
	*kinesinv1.BufferedTask
	tries  int  // how often it was received, this time included
	manual bool // retried by a person, who knows that it may have run already

	// Known once its id was opened:
	due           task.Instant
	redeliverable bool
}

// rowLifeMin is how long the row of a task must exist at least for its message to wait for its delete: see
// redeliverable.
const rowLifeMin = task.RetentionMin

// redeliverable reports whether a task that came out of the buffer may come again soon: if the process is
// killed before it deletes the message, the row of the task refuses the second one. A task of a deliver
// lambda leaves no row and would be sent twice.
func redeliverable(l *catalog.Entry, due, now task.Instant) bool {
	return l.Mode == task.Managed || due > now.Add(queue.DelayMax+rowLifeMin)
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
	t.Created = min(max(task.Instant(a.Accepted), b.Now.Add(-intake.BufferLifeMax)), b.Now)
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

// openArrival opens the id of an arrival. If its lambda was deleted, a person's retry goes to the lambda that has the same
// name now, under an id of that lambda.
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
	if now < max(token.Due, task.Instant(a.Accepted)).Add(l.Retention) {
		return nil
	}
	return &staleError{fmt.Sprintf("it was received again later than %v, the retention of its lambda, after it was due: it may have run already; "+
		"a retry runs it", l.Retention)}
}

package intake

import (
	"context"
	"errors"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// Keyed is what the row of a follow-up with a key does not say.
type Keyed struct {
	Payload []byte
	Follow  []byte // what follows it, if that does not fit its row
	// OnConflict says what becomes of it if its key is held.
	OnConflict string
}

// Taker has a follow-up become the task of its key, or returns the task that holds the key.
type Taker func(ctx context.Context, t task.Task, with *Keyed) (holder *task.Task, err error)

// ErrTakesKey says that what follows a task takes a key, and is not created yet.
var ErrTakesKey = errors.New("what follows the task takes a key, and is not created yet")

// Take has a task that follows another become the task of its key, as a Schedule call would. It returns the
// task that holds the key if that is another one: with on_conflict replace a task that lives, which it never
// changes. The request of the task is the same however often this is called, which makes it one task.
func (in *Intake) Take(ctx context.Context, t task.Task, with *Keyed) (holder *task.Task, err error) {
	l := in.Catalog.ByRef(t.Partition.Lambda)
	if l == nil || l.Deleting { // since a moment ago; then the follow-up is not created
		return nil, api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the lambda is being deleted")
	}
	b, end := in.Begin(1)
	defer end()
	b.takes = true
	t.Created, t.Seq = b.Now, b.SeqOfKeyed()
	t.Life, t.Digest = t.Seq, Digest(&t, with.Payload)
	c := &b.Tasks[0]
	// Nobody but the follow-up has a key that its client made for its blob: what has it and has ended is the
	// same follow-up, before the task before it was redriven.
	c.onlyLive = t.Blob != nil && strings.HasPrefix(t.Key, task.BlobKeyPrefix)
	c.Item = &kinesinv1.ScheduleItem{Lambda: l.Name, Key: t.Key, Payload: with.Payload, OnConflict: with.OnConflict}
	c.follow = with.Follow
	if err := b.Plan(ctx, c, l, &t, t.Due); err != nil {
		return nil, err
	}
	b.Write(ctx)
	b.Announce(ctx)
	switch {
	case c.Err == nil && (!c.Exists || c.Task.Request == t.Request):
		return nil, nil //nolint:nilnil // it has the key
	case c.Err != nil && refusal.Problem(c.Err).GetReason() != kinesinv1.Reason_REASON_KEY_CONFLICT:
		return nil, c.Err
	}
	rows, err := in.Store.Tasks(ctx, []task.ID{t.ID})
	switch {
	case err != nil:
		return nil, err
	case rows[0].ID.IsZero() || rows[0].IsBare():
		return nil, ErrKeyMoves
	}
	return &rows[0], nil
}

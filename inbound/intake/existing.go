package intake

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// ErrKeyMoves is for a key that another call uses, or has just freed.
var ErrKeyMoves = api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the key changed hands meanwhile; try again")

// useExistingKeys answers for tasks whose key is held before anything is written for them: nobody would ever
// delete their payload, nor their wake-up row if the task row ended or expired meanwhile (docs/internals/protocol.md,
// rule 5e). A task whose key is free again replaces the ended row that had it.
func (b *Batch) useExistingKeys(ctx context.Context) {
	keyed := b.Select(func(c *Incoming) bool { return c.IsOpen() && c.Task.ID.IsDerived() })
	b.ReadRows(ctx, keyed, func(c *Incoming, row *task.Task) {
		switch {
		case row.ID.IsZero():
		case b.isForeign(c, row):
			c.Err = errForeignKey(c.Task.Key)
		case row.IsBare() || b.isHeld(c, row):
			b.use(c, row)
		case isOfRequest(row, c.Task.Request):
			c.Task, c.Exists = row, true
		default:
			if c.Err = b.completeForKey(ctx, row); c.Err != nil {
				return
			}
			if c.ended, c.rows = row, store.AsNext(c.rows, row); c.follow != nil {
				c.renameFollow()
			}
			b.passKeyed(c.Task.Seq)
			b.ops = nil // opsOf collects the changed rows: those of a batch that grew are copies there
		}
	})
}

// completeForKey creates what follows an ended task whose key is used again. Where the key is taken by a task that
// follows another one, nothing may take a key in turn.
func (b *Batch) completeForKey(ctx context.Context, ended *task.Task) error {
	take := b.Take
	if b.takes {
		take = nil
	}
	err := b.CompleteEnd(ctx, ended, take)
	if err != nil && !errors.Is(err, ErrTakesKey) {
		err = ErrKeyMoves
	}
	return err
}

// isForeign reports whether a key is that of a task in a collection in which the caller may not schedule. The
// answer is then the same whatever that task is.
func (b *Batch) isForeign(c *Incoming, have *task.Task) bool {
	return c.Task.Key != "" && b.MaySchedule != nil && have.Collection != c.Task.Collection && !have.IsBare() && !b.MaySchedule(c.Lambda, have.Collection)
}

func errForeignKey(key string) error {
	return api.Errorf(kinesinv1.Reason_REASON_KEY_CONFLICT, "key %q is taken, in a collection in which you may not schedule: want another key", key)
}

// isHeld reports whether the task that has the key of another one keeps it from that. A replacement is kept
// only by a task that lives: it takes the key of one that has ended, as a debounce does whose task has run.
func (b *Batch) isHeld(c *Incoming, have *task.Task) bool {
	if have.State.IsEnd() && (c.onlyLive || c.Item.OnConflict == ConflictReplace) {
		return false
	}
	return have.HoldsKey(b.Now, c.Lambda.PolicyFor(have))
}

// isOfRequest reports whether a task was made, or replaced last, by another try of the same call. Then that is
// the task of this try too, which may come first or last: a caller that was not answered tries again, and what
// it gave up may still be under way when the task has ended.
func isOfRequest(have *task.Task, request task.ID) bool {
	return !request.IsZero() && have.Request == request
}

// use answers with the task that exists already, if it is the same as the one that was asked for, or if the
// call says that this one is to replace it.
func (b *Batch) use(c *Incoming, have *task.Task) {
	switch {
	case c.Task.Key == "":
		c.Err = checkSame(c.Task, have)
	case b.isForeign(c, have):
		c.Err = errForeignKey(c.Task.Key)
	case b.isOwn(c, have):
		c.Err = nil // its own write, which was not answered: it is the task of this call, whatever became of it since
	case isOfRequest(have, c.Task.Request):
		c.Err = nil
	case !b.isHeld(c, have):
		c.Err = ErrKeyMoves
	case c.Item.OnConflict == ConflictReplace:
		c.Err, c.Replaces = nil, true
	case c.Item.OnConflict == ConflictReject && !b.Again:
		c.Err = api.Errorf(kinesinv1.Reason_REASON_KEY_CONFLICT, "key %q is held by a task that is %s", c.Task.Key, holderText(c.Task, have))
	default:
		c.Err = checkSame(c.Task, have)
	}
	if c.Err == nil {
		c.Task, c.Exists = have, true
	}
}

// isOwn reports whether the task that has the key is the one that this very item made: no two calls of a
// process have the same life, and those of two processes hardly ever the same contents, too.
func (b *Batch) isOwn(c *Incoming, have *task.Task) bool {
	want := c.Task
	if want.Life == 0 || have.Life != want.Life || have.Digest != want.Digest && have.PayloadRev == want.PayloadRev {
		return false
	}
	return !slices.ContainsFunc(b.Tasks, func(other Incoming) bool { // an item with the same key, which may have made it
		return other.Task != want && other.Task != nil && other.Task.ID == want.ID
	})
}

// checkSame refuses a second task under an id that is taken. Without a key the client chose the id for this
// one call, so the same id is the same call.
func checkSame(want, have *task.Task) error {
	switch {
	case have.Partition.Lambda != want.Partition.Lambda:
		return api.Errorf(kinesinv1.Reason_REASON_KEY_CONFLICT, "request id is taken by a task of another lambda")
	case want.Key != "" && have.Digest != want.Digest:
		return api.Errorf(kinesinv1.Reason_REASON_KEY_CONFLICT, "key %q is taken by a task with %s, which is %s", want.Key, Difference(want, have), holderText(want, have))
	}
	return nil
}

// holderText says how the task stands that has the key of another one, and how that one replaces it, if it can.
func holderText(want, have *task.Task) string {
	text := have.State.String()
	if !have.State.IsEnd() && !have.Due.IsZero() {
		text += ", due " + have.Due.Time().UTC().Format(time.RFC3339)
	}
	switch {
	case have.State.IsEnd():
		return text + `; on_conflict "replace" (--on-conflict replace) schedules a new one`
	case have.State.IsRunning() || have.Collection != want.Collection || have.LimitKey != want.LimitKey:
		return text // a replacement is refused
	}
	return text + `; on_conflict "replace" (--on-conflict replace) gives it this payload and time`
}

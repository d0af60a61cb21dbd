package chain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// Follow gives a task of a batch, which has its id, what its item says that follows it, after all of that was
// checked. apart is as of Attach.
func (k *Keeper) Follow(ctx context.Context, b *intake.Batch, c *intake.Incoming, l *catalog.Entry, t *task.Task) (apart []byte, err error) {
	f := Of(c.Item)
	if f == nil {
		return nil, nil
	}
	if l.Mode == task.Deliver {
		return nil, refusal.Invalid("lambda %s is of mode deliver: Kinesin does not know how its tasks end, so nothing can follow them", l.Name)
	}
	if c.Item.OnConflict == intake.ConflictReplace {
		return nil, refusal.Invalid("on_conflict replace does not go with then, else and finally: a replacement keeps what follows the task that it replaces")
	}
	check := check{Batch: b, depth: 1, before: keysOf(t)}
	if c.After == nil { // else the group was checked when it was made, and what is too late by now expires
		check.from = max(b.Now, t.Due)
	}
	if err := check.all(ctx, f); err != nil {
		return nil, err
	}
	if apart, err = Attach(t, f, InlineMax(k.Store)); err != nil {
		return nil, err
	}
	if n, most := int(t.Chain.FollowBytes), k.PayloadBytesMax(); n > most {
		return nil, api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE, "what follows the task has %d bytes, with payloads and settings: at most %d are allowed", n, most)
	}
	return apart, nil
}

// check checks what follows a task, as a whole.
type check struct {
	*intake.Batch

	depth int // how many tasks come before the follow-ups that are checked
	count int
	// from is when the task before the follow-ups that are checked ends at the earliest; zero: what is too
	// late by now is not refused.
	from task.Instant
	// before are the ids of the tasks with keys that come before the follow-ups that are checked. One of
	// these with the same key could only be created if the row of the task before it were gone.
	before []task.ID
}

func keysOf(t *task.Task) []task.ID {
	if t.Key == "" {
		return nil
	}
	return []task.ID{task.KeyedID(t.Partition.Lambda, t.Key)}
}

func (f *check) all(ctx context.Context, followups *kinesinv1.Followups) error {
	for place, item := range All(followups) {
		if err := f.one(ctx, item, f.depth, place.String()); err != nil {
			return err
		}
	}
	return nil
}

// one checks a follow-up and those that follow it, and notes which lambda its name means now.
func (f *check) one(ctx context.Context, item *kinesinv1.ScheduleItem, depth int, where string) error {
	if depth >= task.ChainDepthMax {
		return refusal.Invalid("%s: it is task %d of a row: at most %d tasks may follow each other, the first one included", task.ShortPlace(where), depth+1, task.ChainDepthMax)
	}
	if f.count++; f.count > task.FollowupsMax {
		return refusal.Invalid("%s: it is follow-up %d of the task: at most %d are allowed, with those of follow-ups", task.ShortPlace(where), f.count, task.FollowupsMax)
	}
	l, err := f.checkItem(ctx, item)
	if err != nil {
		return in(where, err)
	}
	due, err := f.earliest(item)
	if err != nil {
		return in(where, err)
	}
	item.LambdaRef = l.Ref
	next := Of(item)
	if next != nil && l.Mode == task.Deliver {
		return refusal.Invalid("%s: lambda %s is of mode deliver: Kinesin does not know how its tasks end, so nothing can follow them", task.ShortPlace(where), l.Name)
	}
	defer func(before task.Instant) { f.from = before }(f.from)
	f.from = due
	if item.Key != "" {
		id := task.KeyedID(l.Ref, item.Key)
		if slices.Contains(f.before, id) {
			return refusal.Invalid("%s: a task before it has its lambda and its key %q: a cycle", task.ShortPlace(where), item.Key)
		}
		f.before = append(f.before, id)
		defer func() { f.before = f.before[:len(f.before)-1] }()
	}
	for place, item := range All(next) {
		if err := f.one(ctx, item, depth+1, where+"."+place.String()); err != nil {
			return err
		}
	}
	return nil
}

// earliest returns when a follow-up is due at the earliest, which is when the tasks before it take no
// time. It refuses one that has to start before.
func (f *check) earliest(item *kinesinv1.ScheduleItem) (task.Instant, error) {
	if f.from.IsZero() {
		return 0, nil
	}
	due := max(task.Instant(item.Due), f.from.Add(task.Micros(item.Delay)))
	before := task.Instant(item.StartBefore)
	if before == 0 || before > due {
		return due, nil
	}
	return due, refusal.Invalid("start before %s: the task could never start, since it is due at %s at the earliest: want a time after that, or none",
		before.Time().UTC().Format(time.RFC3339Nano), due.Time().UTC().Format(time.RFC3339Nano))
}

// checkItem checks a follow-up by itself.
func (f *check) checkItem(ctx context.Context, item *kinesinv1.ScheduleItem) (*catalog.Entry, error) {
	switch {
	case item.Lambda == "":
		return nil, refusal.Invalid("a follow-up names its lambda")
	case len(item.RequestId) > 0:
		return nil, refusal.Invalid("a follow-up has no request id: it is created once, with the end of the task before it")
	case item.OnConflict == intake.ConflictReject:
		return nil, refusal.Invalid("on_conflict reject: a follow-up whose key is held is not created, and nobody is there to be told; want keep, or replace, which also takes the key of a task that has ended")
	case item.Blob != nil && (len(item.Blob.Id) != len(task.Blob{}.ID) || !task.OfFollowUp([16]byte(item.Blob.Id))):
		return nil, refusal.Invalid("the id of a follow-up's blob does not say that it is one: it would be deleted before the follow-up is there")
	case item.Due != 0 && item.Delay != 0:
		return nil, refusal.Invalid("a task has a due time or a delay, not both")
	case item.Delay < 0:
		return nil, refusal.Invalid("delay %v: want 0 or more", task.Micros(item.Delay))
	}
	l, err := f.FindLambda(ctx, item.Lambda)
	if err != nil {
		return nil, err
	}
	if _, err := f.Build(l, item); err != nil {
		return nil, err
	}
	return l, f.CheckHorizon(max(task.Instant(item.Due), f.Now.Add(task.Micros(item.Delay))))
}

// in says where in a chain a refusal is.
func in(where string, err error) error {
	where = task.ShortPlace(where)
	if known, is := errors.AsType[*api.Error](err); is {
		return api.Errorf(known.Reason, "%s: %s", where, known.Text)
	}
	return fmt.Errorf("%s: %w", where, err)
}

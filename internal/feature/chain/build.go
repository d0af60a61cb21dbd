package chain

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Never is when a task of a chain that is paused is due.
var Never = task.InstantOf(time.Date(2200, time.January, 1, 0, 0, 0, 0, time.UTC)) //nolint:gochecknoglobals // an instant

// followup is a follow-up that is to be put.
type followup struct {
	place    Place
	task     task.Task
	payloads []store.Op // rows that come before it

	keyed *intake.Keyed // it takes a key, and has no first row of its own
}

// followups returns what follows a task that has ended.
func (k *Keeper) followups(ctx context.Context, ended *task.Task) ([]*followup, error) {
	branches, _, err := k.branches(ctx, ended)
	if err != nil {
		return nil, err
	}
	all := make([]*followup, 0, len(branches))
	for i := range branches {
		one, err := k.build(ctx, ended, &branches[i])
		switch {
		case err != nil:
			return nil, err
		case one == nil:
			k.Log.WarnContext(ctx, "follow-up not created: its lambda was deleted", slog.String("lambda", branches[i].item.GetLambda()), slog.String("task_id", ended.ID.String()))
		default:
			all = append(all, one)
		}
	}
	return all, nil
}

// branches returns the follow-ups that follow the end of a task, in their order, and what follows it in all,
// encoded.
func (k *Keeper) branches(ctx context.Context, ended *task.Task) (all []branch, encoded []byte, err error) {
	if encoded, err = encodedOf(ctx, k.Store, ended); err != nil {
		return nil, nil, err
	}
	if all, err = split(encoded); err != nil {
		return nil, nil, err
	}
	return slices.DeleteFunc(all, func(b branch) bool { return !ended.Follows(b.place.Edge) }), encoded, nil
}

// Followup is a follow-up of a task that has ended.
type Followup struct {
	Place

	// Task is the task as it is put; its ID is zero if its lambda was deleted.
	Task task.Task
}

// Followups returns the follow-ups that follow the end of a task, in their order, and what follows it in all.
func (k *Keeper) Followups(ctx context.Context, ended *task.Task) ([]Followup, *kinesinv1.Followups, error) {
	branches, encoded, err := k.branches(ctx, ended)
	if err != nil {
		return nil, nil, err
	}
	var all []Followup
	for i := range branches {
		one, err := k.build(ctx, ended, &branches[i])
		if err != nil {
			return nil, nil, err
		}
		next := Followup{Place: branches[i].place}
		if one != nil {
			next.Task = one.task
		}
		all = append(all, next)
	}
	f, err := decode(encoded)
	return all, f, err
}

// build returns a follow-up of a task that has ended; nil if its lambda was deleted. All of it follows from
// the ended row and the branch, so that whoever builds it again builds the same.
func (k *Keeper) build(ctx context.Context, ended *task.Task, b *branch) (*followup, error) {
	at, item := b.place, b.item
	l, err := k.Lambda(ctx, item.GetLambdaRef())
	if l == nil || err != nil {
		return nil, err
	}
	one := &followup{place: at}
	t := &one.task
	if *t, err = template(item); err != nil {
		return nil, err
	}
	t.Created, t.Due = ended.Ended, DueAfter(ended.Ended, item)
	t.ID = task.FollowupID(ended, at.Edge, at.Index)
	if item.GetKey() != "" {
		t.Request, t.ID = t.ID, task.KeyedID(l.Ref, item.GetKey())
	}
	t.Partition = partitionOf(l, item, t.ID)
	if t.Traceparent == "" {
		t.Traceparent = ended.Traceparent
	}
	if t.StartBefore == 0 && l.StartWithin > 0 {
		t.StartBefore = t.Due.Add(l.StartWithin)
	}
	c := &task.Chain{Root: ended.RootLink(), Parent: task.LinkTo(ended), Edge: at.Edge, Index: at.Index, Depth: 1}
	if ended.Chain != nil {
		c.Depth, c.Paused, c.StartBefore = ended.Chain.Depth+1, ended.Chain.Paused, ended.Chain.StartBefore
	}
	if c.StartBefore > t.Due && l.Mode == task.Managed {
		t.StartBefore = c.StartBefore
	}
	if c.Paused {
		c.PausedDue, t.Due = t.Due, Never
	}
	if c.Outcome, c.FromParent, err = outcomeOf(ended, at.Edge); err != nil {
		return nil, err
	}
	t.Chain = c
	until := max(t.Due, t.Created).Add(l.Retention)
	apart, err := k.attach(ended, t, b)
	if err != nil {
		return nil, err
	}
	if t.Blob, err = api.BlobOf(item.GetBlob()); err != nil {
		return nil, fmt.Errorf("%w: blob of a follow-up: %w", store.ErrCorrupt, err)
	}
	t.PayloadSize = uint32(len(item.GetPayload()))
	inline := len(item.GetPayload()) <= k.PayloadInlineMax()
	if inline {
		t.Payload = item.GetPayload()
	}
	if t.Key != "" {
		one.keyed = &intake.Keyed{Payload: item.GetPayload(), Follow: apart, OnConflict: item.GetOnConflict()}
		return one, nil
	}
	if apart != nil {
		one.payloads = append(one.payloads, store.PutFollow(t, apart, until))
	}
	if !inline {
		one.payloads = append(one.payloads, store.Op{Kind: store.PutPayload, Payload: item.GetPayload(), Task: task.Task{
			ID: t.PayloadID(), Partition: t.Partition, Due: t.Due, ExpireAt: until,
		}})
	}
	store.SetFirst(t)
	return one, nil
}

// attach gives a follow-up what follows it. Only where what follows its parent names blobs may that name any.
func (k *Keeper) attach(ended, t *task.Task, b *branch) (apart []byte, err error) {
	if ended.Chain != nil && !ended.Chain.FollowSum.IsZero() {
		next, err := decode(b.follow)
		if err != nil {
			return nil, err
		}
		if t.Chain.FollowSum, err = blobSum(next); err != nil {
			return nil, err
		}
	}
	return setFollow(t, t.Chain, b.follow, b.count, InlineMax(k.Store)), nil
}

// template returns what the item of a follow-up says about its task, without what depends on its parent.
func template(item *kinesinv1.ScheduleItem) (task.Task, error) {
	tags, err := task.TagsOf(item.GetTags())
	t := task.Task{State: task.Scheduled, Seq: 1, Tags: tags, StartBefore: task.Instant(item.GetStartBefore())}
	api.SetTask(&t, item)
	return t, err
}

// DueAfter returns when the follow-up of a task is due that ended then.
func DueAfter(ended task.Instant, item *kinesinv1.ScheduleItem) task.Instant {
	due := task.Instant(item.GetDue())
	if due == 0 {
		due = ended.Add(max(0, task.Micros(item.GetDelay())))
	}
	if due <= ended {
		return task.FromMillis(ended.Millis()) // it is due already, so that rounding down is not early
	}
	return due.CeilMillis()
}

// partitionOf returns the partition of a follow-up. Its class is by name, as the classes of a lambda may be
// reordered after the follow-up was named.
func partitionOf(l *task.Lambda, item *kinesinv1.ScheduleItem, id task.ID) task.Partition {
	p := task.Partition{Lambda: l.Ref}
	if class, err := l.Priority(item.GetPriority()); err == nil {
		p.Priority = class
	} else if class, err = l.Priority(""); err == nil {
		p.Priority = class
	}
	if item.GetLimitKey() != "" {
		p.Shard = partition.ShardOfKey(item.GetLimitKey(), l.ShardsFirst())
	} else {
		p.Shard = partition.ShardOf(id, l.ShardsFor(id))
	}
	return p
}

// outcomeInlineMax is the largest outcome of a parent that the row of a follow-up holds, in bytes. The rest
// of a larger one is read from the parent's row, which is kept for it.
const outcomeInlineMax = 2 << 10

// outcomeOf returns how a task ended, as its follow-up on an edge keeps it.
func outcomeOf(ended *task.Task, e task.Edge) (outcome []byte, fromParent bool, err error) {
	p := &kinesinv1.Parent{State: ended.State.String()}
	fill(p, ended, e)
	if outcome, err = p.MarshalVT(); err != nil {
		return nil, false, fmt.Errorf("encode the outcome of task %s: %w", ended.ID, err)
	}
	if len(outcome) <= outcomeInlineMax {
		return outcome, false, nil
	}
	outcome, err = (&kinesinv1.Parent{State: p.State}).MarshalVT()
	return outcome, true, err
}

// fill sets what a follow-up gets of its parent's row.
func fill(p *kinesinv1.Parent, ended *task.Task, e task.Edge) {
	p.Result, p.Key = ended.Result, ended.Key
	if e == task.Then || len(ended.History) == 0 {
		return
	}
	for i := range ended.History {
		p.Attempts = append(p.Attempts, api.WireAttempt(&ended.History[i]))
	}
	if !ended.Succeeded() {
		p.Error = ended.History[len(ended.History)-1].Error
	}
}

// ParentOf returns the parent of a follow-up as its handler gets it, without its id and lambda; nil if the task
// follows no other. A parent whose row is gone is returned as far as it is known.
func ParentOf(ctx context.Context, t *task.Task, rows func(ctx context.Context, ids []task.ID) ([]task.Task, error)) (*kinesinv1.Parent, error) {
	if t.Chain == nil || t.Chain.Edge == task.NoEdge {
		return nil, nil //nolint:nilnil // it has none
	}
	p := &kinesinv1.Parent{}
	if err := p.UnmarshalVT(t.Chain.Outcome); err != nil {
		return nil, fmt.Errorf("%w: outcome of the parent of task %s: %w", store.ErrCorrupt, t.ID, err)
	}
	p.Edge = t.Chain.Edge.String()
	if !t.Chain.FromParent {
		return p, nil
	}
	found, err := rows(ctx, []task.ID{t.Chain.Parent.ID})
	if err != nil {
		return nil, err
	}
	if row := &found[0]; !row.ID.IsZero() && row.State.String() == p.State && row.Life == t.Chain.Parent.Life {
		fill(p, row, t.Chain.Edge)
	}
	return p, nil
}

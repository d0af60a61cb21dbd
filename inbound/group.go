package inbound

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// Members says to which group the tasks of a call belong.
type Members struct {
	Group task.ID
	At    uint32 // index of the first one
	// TryAt returns which try a member is of: a call that died before the group counted its member may have
	// stored another task in that place.
	TryAt func(index uint32) uint32
	// DueMax is the latest due time of a member, and Until how long its ended row is kept at least.
	DueMax, Until task.Instant
}

// AddMembers schedules tasks as members of a group, or none of them if one of them is refused. Members that
// are there already stay as they are. An error that is UNAVAILABLE says that some may have been stored.
func (in *Inbound) AddMembers(ctx context.Context, of Members, items []*kinesinv1.ScheduleItem) (rows []*task.Task, err error) {
	b, end := in.Begin(len(items))
	defer end()
	quota := callQuota{in: in, identity: access.From(ctx).Name}
	for i := range items {
		c := &b.Tasks[i]
		c.Way, c.Member = intake.WayStore, &task.Member{Group: of.Group, Index: of.At + uint32(i), Until: of.Until, Try: of.TryAt(of.At + uint32(i))}
		if c.Item, err = memberItem(items[i], c.Member); err == nil {
			err = admit(ctx, b, c, quota.take)
		}
		if err == nil && c.Task.Due > of.DueMax {
			err = refusal.Invalid("it is due after the group expires: want a due time before, or a group that expires later")
		}
		if err != nil {
			err = ofMember(c.Member, err)
			for k := range b.Tasks {
				b.Tasks[k].Err = err
			}
			b.Write(ctx) // nothing: it gives back what was reserved
			return nil, err
		}
	}
	lasting := context.WithoutCancel(ctx)
	b.Write(lasting)
	b.Announce(lasting)
	rows = make([]*task.Task, len(items))
	for i := range b.Tasks {
		c := &b.Tasks[i]
		switch {
		case refusal.Problem(c.Err).GetReason() == kinesinv1.Reason_REASON_KEY_CONFLICT:
			return nil, api.Errorf(kinesinv1.Reason_REASON_KEY_CONFLICT, "member %d exists with another lambda, payload, priority, collection, limit key or other follow-ups: a repeated add has to be the same as the first one", c.Member.Index)
		case c.Err != nil:
			return nil, ofMember(c.Member, c.Err)
		}
		rows[i] = c.Task
	}
	return rows, nil
}

// ofMember says of which member a refusal is.
func ofMember(m *task.Member, err error) error {
	p := refusal.Problem(err)
	if p.GetReason() == kinesinv1.Reason_REASON_INTERNAL {
		return err
	}
	p = proto.CloneOf(p)
	p.Text = fmt.Sprintf("member %d: %s", m.Index, p.GetText())
	return api.ErrorOf(p)
}

// memberItem returns the item of a member. It gets a key, by which it has a task row from the start.
func memberItem(item *kinesinv1.ScheduleItem, m *task.Member) (*kinesinv1.ScheduleItem, error) {
	switch {
	case item == nil:
		return nil, refusal.Invalid("there is none")
	case item.Key != "" || len(item.RequestId) > 0 || item.OnConflict != "":
		return nil, refusal.Invalid("a member has no key of its own: its place in the group makes a repeated add harmless")
	}
	keyed := proto.CloneOf(item)
	keyed.Key = task.MemberKey(m.Group, m.Index)
	return keyed, nil
}

// CheckFollowUp refuses a task that could not follow after a group, with all that follows it, as far as is
// known before.
func (in *Inbound) CheckFollowUp(ctx context.Context, item *kinesinv1.ScheduleItem) (*catalog.Entry, error) {
	switch {
	case item == nil:
		return nil, refusal.Invalid("there is none")
	case len(item.RequestId) > 0:
		return nil, refusal.Invalid("a task that follows has no request id")
	case item.OnConflict == intake.ConflictReject:
		return nil, refusal.Invalid("on_conflict reject: a task that follows whose key is held does not follow, and the group says so; want keep, or replace, which also takes the key of a task that has ended")
	}
	b, end := in.Begin(1)
	defer end()
	l, err := b.FindLambda(ctx, item.Lambda)
	if err != nil {
		return nil, err
	}
	due, _, err := dueOf(b, item.Due, item.Delay)
	if err != nil {
		return nil, err
	}
	t, err := b.Build(l, item)
	if err != nil {
		return nil, err
	}
	t.Due = due
	if err := b.SetExpiry(l, t, item); err != nil {
		return nil, err
	}
	// A copy: the check notes in the item which lambdas its follow-ups mean now.
	return l, b.Follow(ctx, &intake.Incoming{Item: proto.CloneOf(item)}, l, t)
}

// FollowUp schedules a task that follows after a group, once however often it is called with the same id and
// end. completed is when the group was found to have ended: a delay counts from then.
func (in *Inbound) FollowUp(ctx context.Context, item *kinesinv1.ScheduleItem, as task.ID, after *task.GroupEnd, completed task.Instant) (id string, err error) {
	b, end := in.Begin(1)
	defer end()
	c := &b.Tasks[0]
	c.Way, c.After = intake.WayStore, after
	c.Item = proto.CloneOf(item)
	c.Due = max(task.Instant(item.Due), completed.Add(max(0, task.Micros(item.Delay)))).CeilMillis()
	c.Item.RequestId = as[:]
	l, err := b.FindLambda(ctx, item.Lambda)
	if err != nil {
		return "", refusal.Wire(err)
	}
	if l.Mode == task.Deliver && item.Key == "" { // only a row remembers that it was delivered
		c.Item.Key = "group:" + as.String()
	}
	if err := admit(ctx, b, c, func(*catalog.Entry) error { return nil }); err != nil {
		return "", refusal.Wire(err)
	}
	lasting := context.WithoutCancel(ctx)
	b.Write(lasting)
	b.Announce(lasting)
	if c.Item.Key != "" && (c.Exists || refusal.Problem(c.Err).GetReason() == kinesinv1.Reason_REASON_KEY_CONFLICT) {
		return in.withKeyOf(ctx, c, task.KeyedID(l.Ref, c.Item.Key))
	}
	if c.Err != nil {
		return "", refusal.Wire(c.Err)
	}
	return in.Sealer.SealTask(c.Task), nil
}

// withKeyOf returns the id of the task that holds the key of one that follows after a group, if an earlier
// try made it. Another task is not taken for it.
func (in *Inbound) withKeyOf(ctx context.Context, c *intake.Incoming, id task.ID) (string, error) {
	rows, err := in.Store.Tasks(ctx, []task.ID{id})
	switch {
	case err != nil:
		return "", refusal.Wire(err)
	case rows[0].ID.IsZero():
		return "", refusal.Wire(intake.ErrKeyMoves)
	}
	if rows[0].Collection != c.Item.Collection { // whose readers are others
		return "", api.Errorf(kinesinv1.Reason_REASON_KEY_CONFLICT, "key %q is held by a task of another collection: no task of its own follows", c.Item.Key)
	}
	holder := in.Sealer.SealTask(&rows[0])
	if end := rows[0].GroupEnd; end != nil && end.Group == c.After.Group && c.Exists {
		return holder, nil
	}
	return "", api.Errorf(kinesinv1.Reason_REASON_KEY_CONFLICT, "key %q is held by task %s, which is %s: no task of its own follows", c.Item.Key, holder, rows[0].State)
}

// ViewRows shows tasks with their results, as far as there is room in an answer: shown is how many.
func (in *Inbound) ViewRows(rows []task.Task) (views []*kinesinv1.Task, shown int) {
	room := ResultsBytesMax
	for i := range rows {
		if len(rows[i].Result) > room {
			return views, i
		}
		var v *kinesinv1.Task
		if !rows[i].ID.IsZero() {
			v = in.viewOf(in.Sealer.SealTask(&rows[i]), &rows[i], &room).Task
		}
		views = append(views, v)
	}
	return views, len(rows)
}

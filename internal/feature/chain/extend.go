package chain

import (
	"context"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Extend returns the chain of a task with what its handler adds to what follows it, after that was checked and
// stored.
func (k *Keeper) Extend(ctx context.Context, b *intake.Batch, t *task.Task, add *kinesinv1.Followups) (*task.Chain, error) {
	if Count(add) == 0 {
		return t.Chain, nil
	}
	have, err := k.Read(ctx, t)
	if err != nil {
		return nil, err
	}
	check := check{Batch: b, depth: 1, before: keysOf(t), from: b.Now}
	if t.Chain != nil {
		check.depth, check.count = int(t.Chain.Depth)+1, int(t.Chain.FollowCount)
	}
	if err := check.all(ctx, add); err != nil {
		return nil, refusal.Wire(err) // an unknown lambda is refused, and no reason to try again
	}
	next := *t
	apart, err := extend(&next, have, add, InlineMax(k.Store))
	switch {
	case err != nil:
		return nil, err
	case int(next.Chain.FollowBytes) > k.PayloadBytesMax():
		return nil, api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE, "what follows the task would have %d bytes: at most %d are allowed", next.Chain.FollowBytes, k.PayloadBytesMax())
	case apart == nil:
		return next.Chain, nil
	}
	return next.Chain, k.putAbsent(ctx, []store.Op{store.PutFollow(&next, apart, max(next.Due, k.Clock.Now()).Add(task.ChainRetention))})
}

// extend gives a task, of which have follows, what its handler adds to that. apart is as of Attach.
func extend(t *task.Task, have, add *kinesinv1.Followups, inlineMax int) (apart []byte, err error) {
	all := &kinesinv1.Followups{
		Then: append(have.GetThen(), add.GetThen()...), Else: append(have.GetElse(), add.GetElse()...),
		Finally: append(have.GetFinally(), add.GetFinally()...),
	}
	if apart, err = Attach(t, all, inlineMax); err != nil {
		return nil, err
	}
	for _, edge := range []task.Edge{task.Then, task.Else, task.Finally} {
		t.Chain.Added[edge-task.Then] = uint32(len(On(add, edge)))
	}
	return apart, nil
}

// Renew takes from next, the task that starts anew in place of one that has ended, what its handler added to
// what follows it: the next run adds that itself, or does not. It notes the end, so that what followed it is
// found. apart is as of Attach.
func (k *Keeper) Renew(ctx context.Context, ended, next *task.Task) (apart []byte, err error) {
	if !ended.HasFollowups() {
		return nil, nil
	}
	if err := k.noteEnd(ctx, ended, next); err != nil || !next.HasAdded() {
		return nil, err
	}
	f, err := read(ctx, k.Store, next)
	if err != nil {
		return nil, err
	}
	first := func(edge task.Edge) []*kinesinv1.ScheduleItem {
		items := On(f, edge)
		return items[:len(items)-min(len(items), int(next.Chain.Added[edge-task.Then]))]
	}
	return Attach(next, &kinesinv1.Followups{Then: first(task.Then), Else: first(task.Else), Finally: first(task.Finally)}, InlineMax(k.Store))
}

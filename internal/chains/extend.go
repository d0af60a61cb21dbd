package chains

import (
	"context"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// Extend gives a task, of which have follows, what its handler adds to that. apart is as of Attach.
func Extend(t *task.Task, have, add *kinesinv1.Followups, inlineMax int) (apart []byte, err error) {
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

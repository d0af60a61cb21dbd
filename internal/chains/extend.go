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

// Renew takes from a task that starts anew what its handler added to what follows it: the next run adds that
// itself, or does not. apart is as of Attach.
func Renew(ctx context.Context, s Payloads, t *task.Task) (apart []byte, err error) {
	if !t.HasAdded() {
		return nil, nil
	}
	f, err := read(ctx, s, t)
	if err != nil {
		return nil, err
	}
	first := func(edge task.Edge) []*kinesinv1.ScheduleItem {
		items := On(f, edge)
		return items[:len(items)-min(len(items), int(t.Chain.Added[edge-task.Then]))]
	}
	return Attach(t, &kinesinv1.Followups{Then: first(task.Then), Else: first(task.Else), Finally: first(task.Finally)}, InlineMax(s))
}

package inbound

import (
	"context"
	"errors"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/task"
)

// replaceAll replaces the tasks that hold the keys of items which are to replace them.
func (in *Inbound) replaceAll(ctx context.Context, b *intake.Batch) {
	for _, c := range b.Select(func(c *intake.Incoming) bool { return c.Err == nil && c.Replaces }) {
		t, err := in.replace(ctx, b, c)
		if c.Err = err; err == nil {
			c.Task, c.Replaced = &t, true
		}
	}
}

// replace gives a task the time, the priority, the payload and the settings of an item.
func (in *Inbound) replace(ctx context.Context, b *intake.Batch, c *intake.Incoming) (task.Task, error) {
	want, err := b.Build(c.Lambda, c.Item)
	if err != nil {
		return task.Task{}, err
	}
	_, due, err := dueOf(b, c.Item.Due, c.Item.Delay)
	if err != nil {
		return task.Task{}, err
	}
	want.Due = due
	if err := b.SetExpiry(c.Lambda, want, c.Item); err != nil {
		return task.Task{}, err
	}
	replaced, err := in.changeTask(ctx, in.Sealer.SealTask(c.Task), 0, trial{}, func(t *task.Task, l *catalog.Entry) (next task.Task, payload []byte, err error) {
		switch {
		case t.State.IsEnd():
			return next, nil, intake.ErrKeyMoves
		case t.State.IsRunning():
			return next, nil, api.Errorf(kinesinv1.Reason_REASON_KEY_CONFLICT, "key %q is held by a task that a worker has", t.Key)
		}
		if t.Collection != want.Collection || t.LimitKey != want.LimitKey {
			return next, nil, api.Errorf(kinesinv1.Reason_REASON_KEY_CONFLICT,
				"key %q is held by a task with another collection or limit key, which a replacement cannot change", t.Key)
		}
		next, _, err = t.Apply(task.Event{Kind: task.Reschedule, Due: due}, in.Clock.Now(), l.PolicyFor(t))
		setPriority(&next, l, want.Partition.Priority)
		next.SetAsked(want)
		return next, nonNil(c.Item.Payload), err
	})
	if errors.Is(err, api.ErrNotFound) {
		err = intake.ErrKeyMoves // the task ended since this call met it, and its key was used again or its row was deleted
	}
	return replaced, err
}

package chains

import (
	"context"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// matchAll adds the task rows of follow-ups that are due and for which a worker waits. They come after all
// first rows, and nothing but the deletion of the parent's wake-up row after them. A service makes these
// writes one after the other, and there the slot would wait for them.
func (k *Keeper) matchAll(ctx context.Context, c *call, e *ending) {
	if k.Match == nil || k.EndedExpire() {
		return
	}
	now := k.Clock.Now()
	for i := range e.followups {
		t := &e.followups[i].task
		if t.Due > now || t.IsExpired(now) {
			continue
		}
		l, err := k.Lambda(ctx, t.Partition.Lambda)
		if err != nil || l == nil {
			continue
		}
		slot := k.Match(ctx, t)
		if slot == nil {
			continue
		}
		next, _, err := t.Apply(task.Event{Kind: task.Match, Worker: slot.Worker(), Lease: slot.Lease()}, now, l.PolicyFor(t))
		if err != nil {
			slot.Settle(t, err)
			continue
		}
		e.matched = append(e.matched, matched{followup: i, at: len(c.ops), slot: slot})
		c.ops = append(c.ops, store.Op{Kind: store.PutTask, Task: next, Follows: true})
	}
}

// settle settles the slots of an end. The scheduler hears first that the task is in flight, so that it cannot
// hear of its end before.
func (k *Keeper) settle(c *call, e *ending, outcomes []error, err error) {
	for i := range e.matched {
		m := &e.matched[i]
		outcome := err
		if m.at < len(outcomes) {
			outcome = outcomes[m.at]
		}
		t := &c.ops[m.at].Task
		if m.stored = outcome == nil; m.stored {
			k.Sent(t)
		}
		m.slot.Settle(t, outcome)
	}
}

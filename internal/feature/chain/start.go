package chain

import (
	"context"

	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// startAll adds the task rows of follow-ups that are due and for which a worker waits. They come after all
// first rows, and nothing but the deletion of the parent's wake-up row after them. A service makes these
// writes one after the other, and there the slot would wait for them.
func (k *Keeper) startAll(ctx context.Context, c *call, e *ending) {
	if k.Starter == nil || k.EndedExpire() {
		return
	}
	round := k.Starter.Begin(k.Clock.Now())
	for i := range e.followups {
		s, next, err := round.Start(ctx, &task.Order{Task: e.followups[i].task, First: true, Event: task.Event{Kind: task.Enqueue}}, dispatcher.Followup)
		if err != nil || s.Answer != dispatcher.Started {
			continue
		}
		e.started = append(e.started, started{followup: i, at: len(c.ops), start: s})
		c.ops = append(c.ops, store.Op{Kind: store.PutTask, Task: next, Follows: true})
	}
}

// settle settles the starts of an end.
func (k *Keeper) settle(c *call, e *ending, outcomes []error, err error) {
	for i := range e.started {
		s := &e.started[i]
		outcome := err
		if s.at < len(outcomes) {
			outcome = outcomes[s.at]
		}
		s.stored = outcome == nil
		k.Starter.Settle(&s.start, &c.ops[s.at].Task, outcome)
	}
}

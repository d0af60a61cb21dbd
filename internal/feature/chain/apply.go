package chain

import (
	"context"
	"errors"
	"log/slog"
	"slices"

	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// togetherMax is how many follow-ups are put in the same call as the end of their parent.
	togetherMax = 64
	// callOpsMax is for how many ops a call has room that is kept to be used again: about 2.5 MB. A server
	// under load stores some hundreds of ends in one call, which are three ops each.
	callOpsMax = 4096
)

// Apply is that of a store. A write that ends a task which something follows is applied in this order: the
// task row, the first rows of the follow-ups, each put if it is absent, and the deletion of the wake-up row.
// So as long as a follow-up may be missing the wake-up row is there, and who would delete it as a leftover
// puts the follow-ups first (docs/internals/protocol.md, rule 10). Results are those of the ops alone: an end that is
// applied has ended the task, whatever became of its follow-ups so far.
func (k *Keeper) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	for i := range ops {
		if !endsParent(&ops[i]) && !isLeftover(&ops[i]) {
			continue
		}
		c, ok := k.calls.Get().(*call)
		if !ok {
			c = &call{}
		}
		results, err := k.applyWith(ctx, c, ops)
		if err == nil && cap(c.ops) <= callOpsMax { // the contract of a store does not say that it is done with the ops of a call that failed
			c.reset()
			k.calls.Put(c)
		}
		return results, err
	}
	return k.Store.Apply(ctx, ops)
}

// endsParent reports whether an op ends a task that something follows.
func endsParent(op *store.Op) bool {
	return (op.Kind == store.PutTask || op.Kind == store.ReplaceTask) && op.Task.State.IsEnd() && op.Task.HasFollowups() && !op.Amends
}

func (k *Keeper) applyWith(ctx context.Context, c *call, ops []store.Op) ([]error, error) {
	keeps := k.completeLeftovers(ctx, ops)
	c.ops = slices.Grow(c.ops, len(ops)+len(ops)/2) // an end is two ops, and one for what follows
	var deletes map[task.ID]bool                    // parents whose follow-ups are put after this call, and then their wake-up row is deleted
	for i := range ops {
		op := &ops[i]
		if keeps[op.Task.ID] && isLeftover(op) || op.Kind == store.DeleteWakeup && op.Follows && deletes[op.Task.ID] {
			c.from = append(c.from, -1)
			continue
		}
		c.from = append(c.from, len(c.ops))
		c.ops = append(c.ops, *op)
		if endsParent(op) && !k.addEnd(ctx, c) {
			if deletes == nil {
				deletes = map[task.ID]bool{}
			}
			deletes[op.Task.ID] = true
		}
	}
	// Payloads come first, for all ends of the call at once. Those of an end that is then refused cost space
	// and no more.
	if err := k.putAbsent(ctx, c.payloads); err != nil {
		for i := range c.ends {
			k.settle(c, &c.ends[i], nil, store.ErrSkipped)
		}
		return slices.Repeat([]error{err}, len(ops)), err
	}
	if deletes != nil {
		defer k.noteBehind()()
	}
	outcomes, err := k.Store.Apply(ctx, c.ops)
	for i := range c.ends {
		k.settle(c, &c.ends[i], outcomes, err)
		k.afterEnd(ctx, c, &c.ends[i], outcomes, err)
	}
	results := make([]error, len(ops))
	for i, at := range c.from {
		switch {
		case at >= 0 && at < len(outcomes):
			results[i] = outcomes[at]
		case at >= 0:
			results[i] = err
		}
	}
	return results, err
}

// addEnd plans the follow-ups of the last op of a call. It reports whether they are put in the same call.
func (k *Keeper) addEnd(ctx context.Context, c *call) (together bool) {
	e := ending{at: len(c.ops) - 1, first: -1}
	end := &c.ops[e.at]
	if k.EndedExpire() { // a service, where an end may wait for others much longer than a sync takes
		end.Patient = false
	}
	if e.followups, e.failed = k.followups(ctx, &end.Task); e.failed == nil {
		end.Task.ExpireAt = keptFor(&end.Task, e.followups)
		together = len(e.followups) <= togetherMax && !slices.ContainsFunc(e.followups, isKeyed)
	}
	if together {
		e.first = len(c.ops)
		for i := range e.followups {
			c.payloads = append(c.payloads, e.followups[i].payloads...)
			c.ops = append(c.ops, store.Op{Kind: store.PutWakeup, Task: e.followups[i].task, Follows: true, Patient: end.Patient})
		}
		k.startAll(ctx, c, &e)
	}
	c.ends = append(c.ends, e)
	return together
}

// keptFor returns until when the row of a task is kept: also for follow-ups that read it when they start.
func keptFor(ended *task.Task, all []*followup) task.Instant {
	until := ended.ExpireAt
	for i := range all {
		if c := all[i].task.Chain; c.FromParent && !c.Paused {
			until = max(until, all[i].task.Due.Add(task.ChainRetention))
		}
	}
	return until
}

// afterEnd does what follows the write of an end: what there was no room for in the same call, and the
// scheduler is told. It does later whatever it cannot do now.
func (k *Keeper) afterEnd(ctx context.Context, c *call, e *ending, outcomes []error, err error) {
	end := &c.ops[e.at].Task
	outcome := err
	if e.at < len(outcomes) {
		outcome = outcomes[e.at]
	}
	switch {
	case errors.Is(outcome, store.ErrUnknown), outcome != nil && e.at >= len(outcomes):
		k.later(end.ID)
		return
	case outcome != nil:
		return
	}
	if e.first < 0 {
		lasting := context.WithoutCancel(ctx)
		if e.failed == nil {
			e.failed = k.put(lasting, end, e.followups, false)
		}
		if e.failed == nil {
			_, e.failed = k.Store.Apply(lasting, []store.Op{store.Remove(end)})
		}
		if e.failed != nil {
			k.Log.WarnContext(ctx, "follow-ups not created yet", slog.String("task_id", end.ID.String()), slog.Any("error", e.failed))
			k.later(end.ID)
		}
		return
	}
	for i := range e.followups {
		if outcome := outcomes[e.first+i]; outcome != nil && !errors.Is(outcome, store.ErrConflict) {
			k.later(end.ID)
			return
		}
	}
	for i := range e.followups {
		if !e.hasStarted(i) {
			k.tell(e.followups[i : i+1])
		}
	}
}

// call is one call of Apply.
type call struct {
	ops  []store.Op
	from []int // of each op of the caller: its index in ops; -1: it is left out
	ends []ending

	payloads []store.Op // of follow-ups that are put with the end
}

// reset empties the call, so that what it had is not kept in memory.
func (c *call) reset() {
	clear(c.ops)
	clear(c.ends)
	clear(c.payloads)
	c.ops, c.from, c.ends, c.payloads = c.ops[:0], c.from[:0], c.ends[:0], c.payloads[:0]
}

// ending is the end of a task that something follows.
type ending struct {
	at        int // of its task row in call.ops
	followups []*followup
	first     int // of the followups in call.ops; -1: they are put afterwards
	failed    error
	started   []started // of the followups
}

// started is a follow-up that is stored as claimed together with the end of its parent, so that one sync
// stands between the two.
type started struct {
	followup int // in ending.followups
	at       int // of its task row in call.ops
	start    dispatcher.Start
	stored   bool
}

// hasStarted reports whether a follow-up is stored as claimed.
func (e *ending) hasStarted(followup int) bool {
	for i := range e.started {
		if s := &e.started[i]; s.followup == followup {
			return s.stored
		}
	}
	return false
}

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

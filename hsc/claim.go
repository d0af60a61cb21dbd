package hsc

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// run claims what it can and settles every message: it is deleted, or visible again. The won claims are in
// c.claims until the next run. It returns an error only when the worker's lease has ended.
func (c *claimer) run(ctx context.Context, messages []queue.Message) error {
	clear(c.claims)
	c.claims = slices.Grow(c.claims[:0], len(messages))[:len(messages)]
	for i := range messages {
		c.claims[i] = claim{message: &messages[i], row: &messages[i].Task}
	}
	c.refuseTooOld()
	c.refuseDuplicates()
	c.refuseRedelivered(ctx)
	err := c.admit(ctx)
	c.readPayloads(ctx)
	c.commit(ctx)
	c.settle(ctx, messages)
	steady := clock.Steady(c.svc.Clock)
	for i := range c.claims {
		row := c.claims[i].row
		c.sess.suspectClaimed(row.ID, steady.Add(row.Quarantine()))
	}
	return err
}

// commit writes the open claims until each is decided, or ctx ends. A claim may be applied though an error
// came back, so ctx does not cut the writes short, and unknown outcomes are read back.
func (c *claimer) commit(ctx context.Context) {
	lasting := context.WithoutCancel(ctx)
	failures := 0
	for c.decide() > 0 {
		results, err := c.svc.Store.Apply(lasting, c.ops)
		for i, cl := range c.written {
			c.noteResult(cl, results[i])
		}
		if err != nil { // the ops may still be in use
			c.ops = nil
		}
		for unknown := slices.Collect(c.in(claimUnknown)); len(unknown) > 0; unknown = slices.Collect(c.in(claimUnknown)) {
			c.svc.Hooks.Failed("claim", cmp.Or(err, store.ErrUnknown))
			failures++
			if storeRetry.Sleep(ctx, c.svc.Clock, failures) != nil {
				c.putBackUndecided()
				return
			}
			err = c.readBack(lasting, unknown)
		}
	}
}

// decide computes the claimed rows and their writes, and returns how many there are.
func (c *claimer) decide() int {
	now := c.svc.Clock.Now()
	c.ops, c.written = c.ops[:0], c.written[:0]
	for cl := range c.in(claimOpen) {
		if cl.rounds++; cl.rounds > conflictRoundsMax {
			cl.state = claimPutBack
			continue
		}
		if cl.putsBack = c.svc.isHeld(cl.row, now); cl.putsBack {
			c.planPutBack(cl, now)
			continue
		}
		if cl.payloadUnread { // the gate has ended since
			cl.state = claimPutBack
			continue
		}
		event, kind := task.Event{Kind: task.Claim, Seq: cl.row.Seq, Worker: c.sess.worker, Lease: c.sess.lease}, store.ReplaceTask
		if cl.isFirst() {
			event.Kind, kind = task.Match, store.PutTask
		}
		next, _, err := cl.row.Apply(event, now, task.Policy{})
		switch {
		case errors.Is(err, task.ErrExpired):
			cl.state, cl.reason = claimRefused, RefusedExpired
			continue
		case err != nil || cl.isTooOld(now):
			cl.refuse(cl.row)
			continue
		}
		if cl.isFirst() {
			next.Enqueued = cl.row.Enqueued
		}
		cl.next = next
		patient := next.HeldUntil() > now.Add(patientBefore)
		c.ops = append(c.ops, store.Op{Kind: kind, Task: next, Patient: patient})
		c.written = append(c.written, cl)
	}
	return len(c.ops)
}

// noteResult notes the result of a claim's write.
func (c *claimer) noteResult(cl *claim, result error) {
	switch {
	case cl.putsBack && result == nil:
		c.refuseHeld(cl, &cl.next, true)
		return
	case cl.putsBack && !errors.Is(result, store.ErrConflict):
		cl.state = claimPutBack // if it was applied, the message is stale when it comes again
		return
	case result == nil:
		c.win(cl)
		return
	}
	if current, ok := isConflict(result); ok {
		c.reconsider(cl, current)
		return
	}
	cl.state = claimUnknown
}

// planPutBack has a task wait again that a gate holds. Its message, which is stale then, is refused. One that
// has no task row is still its wake-up row, and needs no write.
func (c *claimer) planPutBack(cl *claim, now task.Instant) {
	if cl.isFirst() {
		c.refuseHeld(cl, cl.row, false)
		return
	}
	next, _, err := cl.row.Apply(task.Event{Kind: task.Reschedule, Due: cl.row.Due}, now, task.Policy{})
	if err != nil {
		cl.refuse(cl.row)
		return
	}
	cl.next = next
	c.ops = append(c.ops, store.Op{Kind: store.ReplaceTask, Task: next})
	c.written = append(c.written, cl)
}

func (c *claimer) win(cl *claim) {
	cl.state = claimWon
	c.svc.recentClaims.add(cl.next.ID, cl.next.Seq-1)
}

// readBack finds out what became of writes whose outcome is unknown.
func (c *claimer) readBack(ctx context.Context, unknown []*claim) error {
	rows, err := c.currentRows(ctx, unknown)
	if err != nil {
		return err
	}
	for i, cl := range unknown {
		if rows[i] != nil && sameClaim(rows[i], &cl.next) {
			c.win(cl)
			continue
		}
		c.reconsider(cl, rows[i])
	}
	return nil
}

// settle deletes the messages that are done with, and puts the others back.
func (c *claimer) settle(ctx context.Context, messages []queue.Message) {
	ctx = context.WithoutCancel(ctx)
	var back []queue.Message
	for i := range c.claims {
		cl := &c.claims[i]
		if cl.state == claimRefused {
			c.svc.Hooks.Refused(cl.reason, 1)
		}
		if cl.isSuspect && cl.state != claimWon {
			c.svc.suspectDone(c.sess, cl.row.ID)
		}
		if cl.state == claimPutBack {
			back = append(back, *cl.message)
		}
	}
	if len(back) == 0 {
		c.svc.deleteMessages(ctx, messages)
		return
	}
	done := make([]queue.Message, 0, len(messages)-len(back))
	for i := range c.claims {
		if c.claims[i].state != claimPutBack {
			done = append(done, messages[i])
		}
	}
	c.svc.deleteMessages(ctx, done)
	c.svc.putBack(ctx, back, putBackDelay)
}

// deliveries returns the won claims as they go to the worker. A task whose payload is gone, or whose parent
// is damaged, cannot run: its attempt ends here, for good.
func (c *claimer) deliveries(ctx context.Context) []delivery {
	now := c.svc.Clock.Now()
	won := make([]delivery, 0, len(c.claims))
	for cl := range c.in(claimWon) {
		if cl.cannotRun != "" {
			c.svc.failUnrun(ctx, c.sess, &cl.next, cl.cannotRun)
			continue
		}
		c.svc.Hooks.Claimed(cl.entry, &cl.next)
		if (cl.next.Wake < cl.row.Wake || cl.isFirst() && now >= cl.row.Wake) && c.svc.Scheduler != nil {
			// The scheduler does not know of a first row, nor that a short lease ends before the wake-up it
			// knows.
			c.svc.Scheduler.Awake(&cl.next)
		}
		row := cl.next
		won = append(won, delivery{&assignment{row: &row}, c.svc.wireClaimed(&row, cl.entry, cl.payload, cl.parent)})
	}
	return won
}

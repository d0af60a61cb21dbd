package hsc

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// conflictRoundsMax bounds how often one claim is decided again because the row had changed.
	conflictRoundsMax = 4
	// putBackDelay is how long a message that could not be claimed now stays out of sight.
	putBackDelay = 100 * time.Millisecond
	// patientBefore is how long before its due time the claim of a task may share another's sync: the sync
	// and the way to the worker fit in several times.
	patientBefore = 3 * store.PatientMax
)

// claimState is what became of one message.
type claimState uint8

const (
	claimOpen    claimState = iota // to be decided and written
	claimUnknown                   // written, with an unknown outcome: to be read back
	claimWon                       // the attempt is the worker's
	claimRefused                   // the message is deleted
	claimPutBack                   // not now: the message goes back for a moment
)

// claim is one message on its way to an attempt.
type claim struct {
	message       *queue.Message
	row           *task.Task        // as the message has it, or as a conflict showed it
	next          task.Task         // as claimed
	payload       []byte            // if it is stored apart
	cannotRun     string            // why its attempt ends before it runs; empty: it can
	parent        *kinesinv1.Parent // of a task that follows another
	payloadUnread bool              // a gate held the task when the payloads were read
	entry         *catalog.Entry
	state         claimState
	isSuspect     bool   // it is the reserved suspect of its process
	putsBack      bool   // a gate holds the task: next is the row as it waits again
	reason        string // of a refusal
	rounds        int
}

// claimer turns received messages into attempts of one worker. It is used by one goroutine.
type claimer struct {
	svc  *Service
	sess *session

	claims  []claim
	ops     []store.Op
	written []*claim // ops[i] is of written[i]
	seen    map[task.ID]struct{}
}

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

// in yields the claims that are in the state.
func (c *claimer) in(state claimState) iter.Seq[*claim] {
	return func(yield func(*claim) bool) {
		for i := range c.claims {
			if c.claims[i].state == state && !yield(&c.claims[i]) {
				return
			}
		}
	}
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

// isFirst reports whether the task had no task row when its message was sent: then the claim writes the first
// one.
func (cl *claim) isFirst() bool { return cl.row.State == task.Scheduled }

// isTooOld reports whether the task of such a message may have ended, and its row be gone.
func (cl *claim) isTooOld(now task.Instant) bool {
	return cl.isFirst() && now >= cl.row.Enqueued.Add(task.UndispatchedMax)
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

func (s *Service) isHeld(t *task.Task, now task.Instant) bool {
	return s.Held != nil && !t.IsExpired(now) && s.Held(t, now)
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

func (c *claimer) refuseHeld(cl *claim, t *task.Task, hasRow bool) {
	cl.state, cl.reason = claimRefused, RefusedHeld
	if c.svc.Scheduler != nil {
		c.svc.Scheduler.PutBack(*t, hasRow)
	}
}

func (c *claimer) win(cl *claim) {
	cl.state = claimWon
	c.svc.recentClaims.add(cl.next.ID, cl.next.Seq-1)
}

// reconsider decides by the row as it is now, nil if there is none. A task whose wake-up alone was moved is
// still this message's; one that a user or another worker moved on is not. Nor is one that has another
// payload, even if it is enqueued again: the payload that was read for this message is the old one, or none.
func (c *claimer) reconsider(cl *claim, current *task.Task) {
	if current == nil {
		if cl.state = claimOpen; !cl.isFirst() {
			cl.state, cl.reason = claimRefused, RefusedGone
		}
		return
	}
	sent := &cl.message.Task
	soon := max(sent.HeldUntil(), c.svc.Clock.Now().Add(c.svc.Ahead))
	samePayload := current.PayloadID() == sent.PayloadID()
	if current.State == task.Enqueued && current.HeldUntil() <= soon && queue.NameFor(current) == queue.NameFor(sent) && samePayload {
		cl.row, cl.state = current, claimOpen
		return
	}
	cl.refuse(current)
}

func (cl *claim) refuse(current *task.Task) {
	cl.state = claimRefused
	switch {
	case current.State.IsEnd():
		cl.reason = RefusedEnded
	case current.State.IsRunning():
		cl.reason = RefusedTaken
	default:
		cl.reason = RefusedStale
	}
}

// putBackUndecided gives up on claims that are not decided. If one was applied after all, its wake-up finds
// that the worker never confirmed it.
func (c *claimer) putBackUndecided() {
	for i := range c.claims {
		if s := c.claims[i].state; s == claimOpen || s == claimUnknown {
			c.claims[i].state = claimPutBack
		}
	}
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

// currentRows reads the rows of claims; nil for a row that is gone.
func (c *claimer) currentRows(ctx context.Context, claims []*claim) ([]*task.Task, error) {
	ids := make([]task.ID, len(claims))
	for i, cl := range claims {
		ids[i] = cl.row.ID
	}
	rows, err := c.svc.taskRows(ctx, ids)
	if err != nil {
		return nil, err
	}
	current := make([]*task.Task, len(claims))
	for i := range rows {
		if !rows[i].ID.IsZero() {
			current[i] = &rows[i]
		}
	}
	return current, nil
}

// sameClaim reports whether the row is what our write would have made it. Only a later change has a greater
// sequence number, and no other claimer writes our worker's id.
func sameClaim(row, next *task.Task) bool {
	return row.State == task.Claimed && row.Seq == next.Seq && row.Attempt == next.Attempt &&
		row.Worker == next.Worker && row.ClaimedAt == next.ClaimedAt
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

// deleteMessages is best effort: a message that comes again is refused.
func (s *Service) deleteMessages(ctx context.Context, messages []queue.Message) {
	if len(messages) == 0 {
		return
	}
	if err := s.Queue.Delete(ctx, messages); err != nil {
		s.Hooks.Failed("delete messages", err)
	}
}

// putBack is best effort: a message that is lost is sent again when its task's wake-up fires.
func (s *Service) putBack(ctx context.Context, messages []queue.Message, delay time.Duration) {
	if len(messages) == 0 {
		return
	}
	if err := s.Queue.Release(context.WithoutCancel(ctx), messages, delay); err != nil {
		s.Hooks.Failed("release messages", err)
	}
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
			c.svc.Scheduler.Awake(cl.next)
		}
		row := cl.next
		won = append(won, delivery{&assignment{row: &row}, c.svc.wireClaimed(&row, cl.entry, cl.payload, cl.parent)})
	}
	return won
}

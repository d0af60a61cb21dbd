package hsc

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// conflictRoundsMax bounds how often one claim is decided anew because the row had moved on.
	conflictRoundsMax = 4
	// putBackDelay is how long a message that could not be claimed now stays out of sight.
	putBackDelay = 100 * time.Millisecond
	// patientBefore is how long before its due time the claim of a task may share another's sync: the
	// sync, and the way to the worker, fit in several times.
	patientBefore = 3 * store.PatientMax
)

// claimState is what became of one message.
type claimState uint8

const (
	claimOpen    claimState = iota // to be decided and written
	claimUnknown                   // written, perhaps: to be read back
	claimWon                       // the attempt is the worker's
	claimRefused                   // the message is of no use to anybody
	claimPutBack                   // not now: the message goes back for a moment
)

// claim is one message on its way to an attempt.
type claim struct {
	row     *task.Task // as the message has it, or as a conflict showed it
	next    task.Task  // as claimed
	payload []byte     // of a payload that is stored apart
	lost    bool       // the payload row is missing
	entry   *catalog.Entry
	state   claimState
	apart   bool   // the one suspect of its process was made of it
	reason  string // of a refusal
	rounds  int
}

// claimer turns received messages into attempts of one worker. It is used by one goroutine.
type claimer struct {
	svc  *Service
	sess *session

	claims []claim
	ops    []store.Op
	at     []int // ops[i] is of claims[at[i]]
	seen   map[task.ID]struct{}
	retry  backoff
}

// run claims what it can and settles every message: it is deleted, or visible again. The won
// claims are in c.claims until the next run. It returns an error only when the worker's lease has ended.
func (c *claimer) run(ctx context.Context, messages []queue.Message) error {
	clear(c.claims)
	c.claims = slices.Grow(c.claims[:0], len(messages))[:len(messages)]
	for i := range messages {
		c.claims[i] = claim{row: &messages[i].Task}
	}
	c.refuseOld()
	c.refuseTwins()
	c.refuseServed(ctx, messages)
	err := c.admit(ctx, messages)
	c.fetch(ctx)
	c.commit(ctx, messages)
	c.settle(ctx, messages)
	steady := clock.Steady(c.svc.Clock)
	for i := range c.claims {
		row := c.claims[i].row
		c.sess.suspectClaimed(row.ID, steady.Add(row.Quarantine()))
	}
	return err
}

// refuseTwins leaves one claim of each task: two that write the same row in the same instant could both be
// told that they had.
func (c *claimer) refuseTwins() {
	if c.seen == nil {
		c.seen = make(map[task.ID]struct{}, len(c.claims))
	}
	clear(c.seen)
	for i := range c.claims {
		cl := &c.claims[i]
		if cl.state != claimOpen {
			continue
		}
		before := len(c.seen)
		if c.seen[cl.row.ID] = struct{}{}; len(c.seen) == before {
			cl.state, cl.reason = claimRefused, RefusedTwice
		}
	}
}

// refuseServed sorts out what was handed out before, without a write that would be refused: by what is
// remembered here, and else by the rows. When they cannot be read the claims are tried like others.
func (c *claimer) refuseServed(ctx context.Context, messages []queue.Message) {
	for i := range c.claims {
		if cl := &c.claims[i]; cl.state == claimOpen && c.svc.served.has(cl.row) {
			cl.state, cl.reason = claimRefused, RefusedAgain
		}
	}
	var ids []task.ID
	var of []int
	for i := range c.claims {
		if messages[i].Again && c.claims[i].state == claimOpen {
			ids, of = append(ids, c.claims[i].row.ID), append(of, i)
		}
	}
	if len(ids) == 0 {
		return
	}
	rows, err := c.svc.Store.Tasks(ctx, ids)
	if err != nil {
		c.svc.Hooks.failed("read tasks of messages that came again", err)
		return
	}
	for n, i := range of {
		row := &rows[n]
		if row.ID.IsZero() {
			row = nil
		}
		c.reconsider(&c.claims[i], row, &messages[i])
	}
}

// admit lets pass what this worker may run. The id of a task in quarantine is on the lease before it is
// claimed.
func (c *claimer) admit(ctx context.Context, messages []queue.Message) error {
	for i := range c.claims {
		cl := &c.claims[i]
		if cl.state != claimOpen {
			continue
		}
		if cl.entry = c.svc.Catalog.ByRef(cl.row.Partition.Lambda); cl.entry == nil {
			cl.state = claimPutBack
			continue
		}
		if !isBlamed(messages[i]) || !c.sess.isReserved(cl.row.ID) {
			continue
		}
		if err := c.admitSuspect(ctx, cl); err != nil {
			c.putBackOpen()
			return err
		}
	}
	return nil
}

func (c *claimer) admitSuspect(ctx context.Context, cl *claim) error {
	id := cl.row.ID
	cl.apart = true
	err := c.svc.Leases.SetSuspect(ctx, c.sess.worker, id)
	if err == nil {
		return nil
	}
	c.svc.suspectDone(c.sess, id)
	cl.state = claimPutBack
	if errors.Is(err, lease.ErrLost) {
		return leaseLost(c.sess.worker)
	}
	c.svc.Hooks.failed("note a suspect", err)
	return nil
}

// fetch reads the payloads that are stored apart, before anything is claimed for them.
func (c *claimer) fetch(ctx context.Context) {
	for i := range c.claims {
		cl := &c.claims[i]
		if cl.state != claimOpen || !cl.row.PayloadStoredApart() {
			continue
		}
		payload, err := c.svc.Store.Payload(ctx, cl.row.PayloadID())
		switch {
		case err == nil:
			cl.payload = payload
		case errors.Is(err, store.ErrNotFound): // of an ended task, most likely: the claim tells
			cl.lost = true
		default:
			c.svc.Hooks.failed("read a payload", err)
			cl.state = claimPutBack
		}
	}
}

// commit writes the open claims until each is decided, or ctx ends. A claim may be applied though an error
// came back, so the writes are not cut short by ctx, and what is unknown is read back.
func (c *claimer) commit(ctx context.Context, messages []queue.Message) {
	lasting := context.WithoutCancel(ctx)
	c.retry.reset()
	for c.decide() > 0 {
		results, err := c.svc.Store.Apply(lasting, c.ops)
		for i, at := range c.at {
			c.take(&c.claims[at], results[i], &messages[at])
		}
		if err != nil { // the ops may still be in use
			c.ops = nil
		}
		for c.unknown() {
			c.svc.Hooks.failed("claim", cmp.Or(err, store.ErrUnknown))
			if !c.retry.sleep(ctx, c.svc.Clock) {
				c.putBackOpen()
				return
			}
			err = c.readBack(lasting, messages)
		}
	}
}

// decide computes the claimed rows and their writes; it says how many there are.
func (c *claimer) decide() int {
	now := c.svc.Clock.Now()
	c.ops, c.at = c.ops[:0], c.at[:0]
	for i := range c.claims {
		cl := &c.claims[i]
		if cl.state != claimOpen {
			continue
		}
		if cl.rounds++; cl.rounds > conflictRoundsMax {
			cl.state = claimPutBack
			continue
		}
		event, kind := task.Event{Kind: task.Claim, Seq: cl.row.Seq, Worker: c.sess.worker, Lease: c.sess.lease}, store.ReplaceTask
		if cl.isFirst() {
			event.Kind, kind = task.Match, store.PutTask
		}
		next, _, err := cl.row.Apply(event, now, task.Policy{})
		if err != nil || cl.isOld(now) {
			cl.refuse(cl.row)
			continue
		}
		if cl.isFirst() {
			next.Enqueued = cl.row.Enqueued
		}
		cl.next = next
		patient := next.HeldUntil() > now.Add(patientBefore)
		c.ops = append(c.ops, store.Op{Kind: kind, Task: next, Patient: patient})
		c.at = append(c.at, i)
	}
	return len(c.ops)
}

// refuseOld refuses old messages before twins are looked for: an old one must not stand for a newer one of
// its task.
func (c *claimer) refuseOld() {
	now := c.svc.Clock.Now()
	for i := range c.claims {
		if cl := &c.claims[i]; cl.isOld(now) {
			cl.refuse(cl.row)
		}
	}
}

// isFirst reports whether the task had no task row when its message was sent: then the claim writes the first
// one.
func (cl *claim) isFirst() bool { return cl.row.State == task.Scheduled }

// isOld reports whether the task of such a message may have ended, and its row be gone.
func (cl *claim) isOld(now task.Instant) bool {
	return cl.isFirst() && now >= cl.row.Enqueued.Add(task.UndispatchedMax)
}

// take notes the result of a claim's write.
func (c *claimer) take(cl *claim, result error, m *queue.Message) {
	if result == nil {
		c.win(cl)
		return
	}
	if current, ok := isConflict(result); ok {
		c.reconsider(cl, current, m)
		return
	}
	cl.state = claimUnknown
}

func (c *claimer) win(cl *claim) {
	cl.state = claimWon
	c.svc.served.note(cl.next.ID, cl.next.Seq-1)
}

// reconsider decides by the row as it is now. A task whose wake-up alone was moved is still this
// message's; one that a user or another worker moved on is not.
func (c *claimer) reconsider(cl *claim, current *task.Task, m *queue.Message) {
	if current == nil {
		if cl.state = claimOpen; !cl.isFirst() {
			cl.state, cl.reason = claimRefused, RefusedGone
		}
		return
	}
	soon := max(m.Task.HeldUntil(), c.svc.Clock.Now().Add(c.svc.Ahead))
	if current.State == task.Enqueued && current.HeldUntil() <= soon && queue.NameFor(current) == queue.NameFor(&m.Task) {
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

func (c *claimer) unknown() bool {
	return slices.ContainsFunc(c.claims, func(cl claim) bool { return cl.state == claimUnknown })
}

// putBackOpen gives up what is not decided. If such a claim was applied after all, its
// wake-up finds that the worker never confirmed it.
func (c *claimer) putBackOpen() {
	for i := range c.claims {
		if s := c.claims[i].state; s == claimOpen || s == claimUnknown {
			c.claims[i].state = claimPutBack
		}
	}
}

// readBack finds out what became of writes whose outcome is unknown.
func (c *claimer) readBack(ctx context.Context, messages []queue.Message) error {
	var ids []task.ID
	var of []int
	for i := range c.claims {
		if c.claims[i].state == claimUnknown {
			ids, of = append(ids, c.claims[i].next.ID), append(of, i)
		}
	}
	rows, err := c.svc.Store.Tasks(ctx, ids)
	if err != nil {
		return err
	}
	for n, i := range of {
		cl, row := &c.claims[i], &rows[n]
		switch {
		case row.ID.IsZero():
			c.reconsider(cl, nil, &messages[i])
		case sameClaim(row, &cl.next):
			c.win(cl)
		default:
			c.reconsider(cl, row, &messages[i])
		}
	}
	return nil
}

// sameClaim reports whether the row is what our write would have made it: the sequence number can
// only be passed by a later change, and no other claimer writes our worker's id.
func sameClaim(row, next *task.Task) bool {
	return row.State == task.Claimed && row.Seq == next.Seq && row.Attempt == next.Attempt &&
		row.Worker == next.Worker && row.ClaimedAt == next.ClaimedAt
}

// settle deletes the messages that have served, and puts the others back.
func (c *claimer) settle(ctx context.Context, messages []queue.Message) {
	ctx = context.WithoutCancel(ctx)
	unserved := 0
	for i := range c.claims {
		switch cl := &c.claims[i]; cl.state {
		case claimRefused:
			c.svc.Hooks.refused(cl.reason, 1)
			if cl.apart {
				c.svc.suspectDone(c.sess, cl.row.ID)
			}
		case claimPutBack:
			c.svc.suspectNotClaimed(c.sess, cl)
			unserved++
		case claimWon, claimOpen, claimUnknown:
		}
	}
	if unserved == 0 {
		c.svc.deleteMessages(ctx, messages)
		return
	}
	c.svc.deleteMessages(ctx, c.those(messages, claimWon, claimRefused))
	c.svc.putBack(ctx, c.those(messages, claimPutBack), putBackDelay)
}

// those are the messages whose claims are in one of the states.
func (c *claimer) those(messages []queue.Message, states ...claimState) []queue.Message {
	var chosen []queue.Message
	for i := range c.claims {
		if slices.Contains(states, c.claims[i].state) {
			chosen = append(chosen, messages[i])
		}
	}
	return chosen
}

// deleteMessages is best effort: a message that comes again is refused.
func (s *Service) deleteMessages(ctx context.Context, messages []queue.Message) {
	if len(messages) == 0 {
		return
	}
	if err := s.Queue.Delete(ctx, messages); err != nil {
		s.Hooks.failed("delete messages", err)
	}
}

// putBack is best effort: a message that is lost is sent again when its task's wake-up fires.
func (s *Service) putBack(ctx context.Context, messages []queue.Message, delay time.Duration) {
	if len(messages) == 0 {
		return
	}
	if err := s.Queue.Release(context.WithoutCancel(ctx), messages, delay); err != nil {
		s.Hooks.failed("release messages", err)
	}
}

// suspectNotClaimed makes room for another suspect when the reserved one was put back.
func (s *Service) suspectNotClaimed(sess *session, cl *claim) {
	if cl.apart && cl.state == claimPutBack {
		s.suspectDone(sess, cl.row.ID)
	}
}

// suspectDone also takes the id off the lease, with the lease's next change.
func (s *Service) suspectDone(sess *session, id task.ID) {
	if sess.suspectDone(id, clock.Steady(s.Clock)) {
		s.Leases.ClearSuspect(sess.worker, id)
	}
}

// delivery is a won claim as it goes to the worker.
type delivery struct {
	hand *hand
	wire *kinesinv1.Claimed
}

// won turns the won claims into deliveries. A task whose payload is gone cannot run; its attempt
// ends here, for good.
func (c *claimer) won(ctx context.Context) []delivery {
	now := c.svc.Clock.Now()
	won := make([]delivery, 0, len(c.claims))
	for i := range c.claims {
		cl := &c.claims[i]
		if cl.state != claimWon {
			continue
		}
		if cl.lost {
			c.svc.failWithoutPayload(ctx, c.sess, &cl.next)
			continue
		}
		c.svc.Hooks.claimed(cl.entry, &cl.next, now)
		if (cl.next.Wake < cl.row.Wake || cl.isFirst() && now >= cl.row.Wake) && c.svc.Scheduler != nil {
			c.svc.Scheduler.Awake(cl.next) // a short lease ends before the wake-up known there; a first row is not known
		}
		row := cl.next
		won = append(won, delivery{&hand{row: &row}, c.svc.wireClaimed(&row, cl.entry, cl.payload)})
	}
	return won
}

// failWithoutPayload ends an attempt that cannot run.
func (s *Service) failWithoutPayload(ctx context.Context, sess *session, row *task.Task) {
	s.Log.ErrorContext(ctx, "payload is missing", slog.String("task_id", row.ID.String()))
	r := report{attempt: attempt{row.ID, row.Attempt}, row: row, event: task.Event{
		Kind: task.Finish, Outcome: task.OutcomeFatal, Error: "the payload of the task is missing from the store",
	}}
	s.record(context.WithoutCancel(ctx), sess, []report{r})
}

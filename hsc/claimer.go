package hsc

import (
	"context"
	"iter"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
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

// isFirst reports whether the task had no task row when its message was sent: then the claim writes the first
// one.
func (cl *claim) isFirst() bool { return cl.row.State == task.Scheduled }

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

// isTooOld reports whether the task of such a message may have ended, and its row be gone.
func (cl *claim) isTooOld(now task.Instant) bool {
	return cl.isFirst() && now >= cl.row.Enqueued.Add(task.UndispatchedMax)
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

// putBackUndecided gives up on claims that are not decided. If one was applied after all, its wake-up finds
// that the worker never confirmed it.
func (c *claimer) putBackUndecided() {
	for i := range c.claims {
		if s := c.claims[i].state; s == claimOpen || s == claimUnknown {
			c.claims[i].state = claimPutBack
		}
	}
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

func (c *claimer) refuseHeld(cl *claim, t *task.Task, hasRow bool) {
	cl.state, cl.reason = claimRefused, RefusedHeld
	if c.svc.Scheduler != nil {
		c.svc.Scheduler.PutBack(t, hasRow)
	}
}

// sameClaim reports whether the row is what our write would have made it. Only a later change has a greater
// sequence number, and no other claimer writes our worker's id.
func sameClaim(row, next *task.Task) bool {
	return row.State == task.Claimed && row.Seq == next.Seq && row.Attempt == next.Attempt &&
		row.Worker == next.Worker && row.ClaimedAt == next.ClaimedAt
}

func (s *Service) isHeld(t *task.Task, now task.Instant) bool {
	return s.Held != nil && !t.IsExpired(now) && s.Held(t, now)
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

// deleteMessages is best effort: a message that comes again is refused.
func (s *Service) deleteMessages(ctx context.Context, messages []queue.Message) {
	if len(messages) == 0 {
		return
	}
	if err := s.Queue.Delete(ctx, messages); err != nil {
		s.Hooks.Failed("delete messages", err)
	}
}

const (
	// conflictRoundsMax bounds how often one claim is decided again because the row had changed.
	conflictRoundsMax = 4
	// putBackDelay is how long a message that could not be claimed now stays out of sight.
	putBackDelay = 100 * time.Millisecond
	// patientBefore is how long before its due time the claim of a task may share another's sync: the sync
	// and the way to the worker fit in several times.
	patientBefore = 3 * store.PatientMax
)

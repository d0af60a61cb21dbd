package admin

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/sdk"
)

// moveLookEvery is how often a move of SQS that somebody waits for is looked at.
const moveLookEvery = time.Second

// DeadLetter is a message of a deliver lambda that its consumers received too often and never deleted, so
// that SQS put it on a dead-letter queue. It is no task any more.
type DeadLetter struct {
	ID           sdk.ID // of its task; MessageID if it is not of a task of this lambda
	MessageID    string // of SQS
	Priority     string
	Due          time.Time // of its task; zero if it is not of one
	Sent         time.Time // when it was put on the queue of the lambda
	Receives     int       // by consumers, and by lists such as DeadLetters.List
	PayloadBytes int
	Payload      []byte // if asked for: as the consumer gets it, which is encoded if a payload codec encoded it
}

// DeadLetterQueue is the dead-letter queue of one priority of a lambda.
type DeadLetterQueue struct {
	Priority    string
	Source      string // name of the SQS queue of the lambda
	Name        string // name of the SQS queue with its dead letters
	ReceivesMax int    // how often a message is received before it goes there
	Count       int64  // of messages, about
	Move        *DeadLetterMove
}

// MoveState is where a move of SQS is.
type MoveState string

// The states of moves.
const (
	MoveRunning    MoveState = "running"
	MoveCompleted  MoveState = "completed"
	MoveCancelling MoveState = "cancelling"
	MoveCancelled  MoveState = "cancelled"
	MoveFailed     MoveState = "failed"
	MoveUnknown    MoveState = "unknown" // SQS does not say
)

// DeadLetterMove is a job of SQS that moves messages back to the queue that they came from.
type DeadLetterMove struct {
	State   MoveState
	Moved   int64 // messages, about
	Total   int64 // messages when it began, about
	Started time.Time
	Problem string // why it failed, or is unknown
}

func (m *DeadLetterMove) goesOn() bool {
	return m != nil && (m.State == MoveRunning || m.State == MoveCancelling)
}

// DeadLetterListOptions are the options of DeadLetters.List.
type DeadLetterListOptions struct {
	Priority string // empty: all
	Limit    int    // 0: 100; at most 1,000
	Payload  bool   // also payloads; the list then ends at 4 MiB
}

// DeadLetters has the calls about the dead letters of deliver lambdas. Those of managed lambdas are tasks.
type DeadLetters struct{ c *calls }

// List returns dead letters of a deliver lambda, and leaves them where they are; more says that there may be others.
// SQS hides them from others for as long as the call takes, and counts a receive. It returns ErrNotFound when the
// lambda's queue has no dead-letter queue, and ErrInvalid for a managed lambda.
func (s DeadLetters) List(ctx context.Context, lambda string, o DeadLetterListOptions) (letters []DeadLetter, more bool, err error) {
	request := wirecopy.To[kinesinv1.ListDeadLettersRequest](&o)
	request.Lambda = lambda
	r, err := callSet(ctx, s.c, "dead letters", s.c.DeadLetters.ListDeadLetters, request)
	return wirecopy.All[DeadLetter](r.GetMessages()), r.GetMore(), err
}

// DeadLetterCountOptions are the options of DeadLetters.Count.
type DeadLetterCountOptions struct {
	Priority string // empty: all
}

// Count returns about how many dead letters a deliver lambda has by queue, and how far SQS is with moving them back.
func (s DeadLetters) Count(ctx context.Context, lambda string, o DeadLetterCountOptions) ([]DeadLetterQueue, error) {
	r, err := call(ctx, s.c, "count dead letters", s.c.DeadLetters.CountDeadLetters, &kinesinv1.CountDeadLettersRequest{Lambda: lambda, Priority: o.Priority})
	return wirecopy.All[DeadLetterQueue](r.GetQueues()), err
}

// DeadLetterChangeOptions are the options of DeadLetters.Redrive and DeadLetters.Delete.
type DeadLetterChangeOptions struct {
	Priority string // empty: all
	Pace     int    // messages a second, at most 500; 0: as fast as SQS
	// Progress is called now and then with the number of messages by what became of them; nil is fine.
	Progress func(outcomes map[string]int64)
	// Detach, of Redrive, returns when SQS has begun. Its moves go on, whatever becomes of this
	// process; DeadLetters.Count says how far they are.
	Detach bool
	// Purge, of Delete, has SQS empty the queues within a minute, of what comes meanwhile, too. It
	// has no pace.
	Purge bool
}

// Redrive moves the dead letters of a deliver lambda back to its queue, each at least once, and
// returns how many were "redriven", about. It waits for moves of SQS, and returns ErrUnavailable when one
// fails. A task that fails again meanwhile stays dead.
func (s DeadLetters) Redrive(ctx context.Context, lambda string, o DeadLetterChangeOptions) (map[string]int64, error) {
	outcomes, moves, err := s.change(ctx, "redrive", lambda, o)
	if err != nil || o.Detach {
		return outcomes, err
	}
	before, during := outcomes["redriven"], map[string]int64{} // moved, by queue
	tell := func() {
		outcomes["redriven"] = before
		for _, n := range during {
			outcomes["redriven"] += n
		}
		o.tell(outcomes)
	}
	for len(moves) > 0 {
		var going []DeadLetterQueue
		for _, q := range moves {
			m := q.Move
			if during[q.Name] = m.Moved; m.goesOn() {
				going = append(going, q)
			} else if m.State != MoveCompleted {
				tell()
				return outcomes, fmt.Errorf("%w: the move of SQS queue %s is %s: %s", sdk.ErrUnavailable, q.Name, m.State, m.Problem)
			}
		}
		tell()
		if len(going) == 0 {
			break
		}
		if err := clock.Sleep(ctx, s.c.Config.Clock, moveLookEvery); err != nil {
			return outcomes, err
		}
		if moves, err = s.movesNow(ctx, lambda, going); err != nil {
			return outcomes, err
		}
	}
	return outcomes, nil
}

// movesNow returns queues with their moves as they are now. One that SQS has forgotten is over.
func (s DeadLetters) movesNow(ctx context.Context, lambda string, going []DeadLetterQueue) ([]DeadLetterQueue, error) {
	var all []DeadLetterQueue
	for _, q := range going {
		now, err := s.Count(ctx, lambda, DeadLetterCountOptions{Priority: q.Priority})
		if err != nil {
			return nil, err
		}
		for _, n := range now {
			if n.Move == nil || !q.Move.Started.IsZero() && n.Move.Started.After(q.Move.Started) {
				n.Move = &DeadLetterMove{State: MoveCompleted, Moved: q.Move.Moved}
			}
			all = append(all, n)
		}
	}
	return all, nil
}

// Delete deletes the dead letters of a deliver lambda for good, and returns how many were
// "deleted". Messages that somebody has received just now stay, unless Purge is set.
func (s DeadLetters) Delete(ctx context.Context, lambda string, o DeadLetterChangeOptions) (map[string]int64, error) {
	outcomes, _, err := s.change(ctx, "delete", lambda, o)
	return outcomes, err
}

// change calls until the server has changed all that it changes itself, and returns the queues
// that SQS moves.
func (s DeadLetters) change(ctx context.Context, action, lambda string, o DeadLetterChangeOptions) (map[string]int64, []DeadLetterQueue, error) {
	request := wirecopy.To[kinesinv1.ChangeDeadLettersRequest](&o)
	request.Action, request.Lambda = action, lambda
	outcomes := map[string]int64{}
	var moves []DeadLetterQueue
	for {
		r, err := callSet(ctx, s.c, action+" dead letters", s.c.DeadLetters.ChangeDeadLetters, request)
		if err != nil {
			return outcomes, moves, err
		}
		for outcome, n := range r.Outcomes {
			outcomes[outcome] += n
		}
		moves = append(moves, wirecopy.All[DeadLetterQueue](r.Queues)...)
		if !r.More {
			return outcomes, moves, nil
		}
		o.tell(outcomes)
		request.Began = r.Began
	}
}

func (o *DeadLetterChangeOptions) tell(outcomes map[string]int64) {
	if o.Progress != nil {
		o.Progress(maps.Clone(outcomes))
	}
}

package sdk

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
)

// moveLookEvery is how often a move of SQS that somebody waits for is looked at.
const moveLookEvery = time.Second

// DeadLetter is a message of a deliver lambda that its consumers received too often and never deleted, so
// that SQS put it on a dead-letter queue. It is no task any more.
type DeadLetter struct {
	ID           ID     // of its task; MessageID if it is not of a task of this lambda
	MessageID    string // of SQS
	Priority     string
	Due          time.Time // of its task; zero if it is not of one
	Sent         time.Time // when it was put on the queue of the lambda
	Receives     int       // by consumers, and by lists such as DeadLetters
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

// DeadLetterMove is a job of SQS that moves messages back to the queue that they came from.
type DeadLetterMove struct {
	State   string // running, completed, cancelling, cancelled, failed, or unknown, when SQS does not say
	Moved   int64  // messages, about
	Total   int64  // messages when it began, about
	Started time.Time
	Problem string // why it failed, or is unknown
}

func (m *DeadLetterMove) goesOn() bool {
	return m != nil && (m.State == "running" || m.State == "cancelling")
}

// DeadLetterQuery selects dead letters of a lambda.
type DeadLetterQuery struct {
	Priority string // empty: all
	Limit    int    // 0: 100; at most 1,000
	Payload  bool   // also payloads; the list then ends at 4 MiB
}

// DeadLetters returns dead letters of a deliver lambda, and leaves them where they are; more says that there
// may be others. SQS hides them from others for as long as the call takes, and counts a receive. It returns
// ErrNotFound when the lambda's queue has no dead-letter queue, and ErrInvalid for a managed lambda, whose
// dead letters are tasks.
func (c *Client) DeadLetters(ctx context.Context, lambda string, q DeadLetterQuery) (letters []DeadLetter, more bool, err error) {
	r, err := callSet(ctx, c, "dead letters", c.backend.dead.ListDeadLetters, &kinesinv1.ListDeadLettersRequest{
		Lambda: lambda, Priority: q.Priority, Limit: uint32(max(0, q.Limit)), Payload: q.Payload,
	})
	if err != nil {
		return nil, false, err
	}
	for _, m := range r.Messages {
		letters = append(letters, DeadLetter{
			ID: ID(m.Id), MessageID: m.MessageId, Priority: m.Priority, Due: timeOf(m.Due), Sent: timeOf(m.Sent),
			Receives: int(m.Receives), PayloadBytes: int(m.PayloadBytes), Payload: m.Payload,
		})
	}
	return letters, r.More, nil
}

// CountDeadLetters returns about how many dead letters a deliver lambda has by queue, and how far SQS is with
// moving them back. An empty priority means all.
func (c *Client) CountDeadLetters(ctx context.Context, lambda, priority string) ([]DeadLetterQueue, error) {
	r, err := call(ctx, c, "count dead letters", c.backend.dead.CountDeadLetters, &kinesinv1.CountDeadLettersRequest{Lambda: lambda, Priority: priority})
	if err != nil {
		return nil, err
	}
	return deadLetterQueuesOf(r.Queues), nil
}

func deadLetterQueuesOf(wire []*kinesinv1.DeadLetterQueue) []DeadLetterQueue {
	all := make([]DeadLetterQueue, len(wire))
	for i, q := range wire {
		all[i] = DeadLetterQueue{Priority: q.Priority, Source: q.Source, Name: q.Name, ReceivesMax: int(q.ReceivesMax), Count: q.Count}
		if m := q.Move; m != nil {
			all[i].Move = &DeadLetterMove{State: m.State, Moved: m.Moved, Total: m.Total, Started: timeOf(m.Started), Problem: m.Problem}
		}
	}
	return all
}

// DeadLetterChange says which dead letters to change and how fast.
type DeadLetterChange struct {
	Priority string // empty: all
	Pace     int    // messages a second, at most 500; 0: as fast as SQS
	// Progress is called now and then with the number of messages by what became of them; nil is fine.
	Progress func(outcomes map[string]int64)
	// Detach, of RedriveDeadLetters, returns when SQS has begun. Its moves go on, whatever becomes of this
	// process; CountDeadLetters says how far they are.
	Detach bool
	// Purge, of DeleteDeadLetters, has SQS empty the queues within a minute, of what comes meanwhile, too. It
	// has no pace.
	Purge bool
}

// RedriveDeadLetters moves the dead letters of a deliver lambda back to its queue, each at least once, and
// returns how many were "redriven", about. It waits for moves of SQS, and returns ErrUnavailable when one
// fails. A task that fails again meanwhile stays dead.
func (c *Client) RedriveDeadLetters(ctx context.Context, lambda string, d DeadLetterChange) (map[string]int64, error) {
	outcomes, moves, err := c.changeDeadLetters(ctx, "redrive", lambda, d)
	if err != nil || d.Detach {
		return outcomes, err
	}
	before, during := outcomes["redriven"], map[string]int64{} // moved, by queue
	tell := func() {
		outcomes["redriven"] = before
		for _, n := range during {
			outcomes["redriven"] += n
		}
		d.tell(outcomes)
	}
	for len(moves) > 0 {
		var going []DeadLetterQueue
		for _, q := range moves {
			m := q.Move
			if during[q.Name] = m.Moved; m.goesOn() {
				going = append(going, q)
			} else if m.State != "completed" {
				tell()
				return outcomes, fmt.Errorf("%w: the move of SQS queue %s is %s: %s", ErrUnavailable, q.Name, m.State, m.Problem)
			}
		}
		tell()
		if len(going) == 0 {
			break
		}
		if err := clock.Sleep(ctx, c.cfg.Clock, moveLookEvery); err != nil {
			return outcomes, err
		}
		if moves, err = c.movesNow(ctx, lambda, going); err != nil {
			return outcomes, err
		}
	}
	return outcomes, nil
}

// movesNow returns queues with their moves as they are now. One that SQS has forgotten is over.
func (c *Client) movesNow(ctx context.Context, lambda string, going []DeadLetterQueue) ([]DeadLetterQueue, error) {
	var all []DeadLetterQueue
	for _, q := range going {
		now, err := c.CountDeadLetters(ctx, lambda, q.Priority)
		if err != nil {
			return nil, err
		}
		for _, n := range now {
			if n.Move == nil || !q.Move.Started.IsZero() && n.Move.Started.After(q.Move.Started) {
				n.Move = &DeadLetterMove{State: "completed", Moved: q.Move.Moved}
			}
			all = append(all, n)
		}
	}
	return all, nil
}

// DeleteDeadLetters deletes the dead letters of a deliver lambda for good, and returns how many were
// "deleted". Messages that somebody has received just now stay, unless Purge is set.
func (c *Client) DeleteDeadLetters(ctx context.Context, lambda string, d DeadLetterChange) (map[string]int64, error) {
	outcomes, _, err := c.changeDeadLetters(ctx, "delete", lambda, d)
	return outcomes, err
}

// changeDeadLetters calls until the server has changed all that it changes itself, and returns the queues
// that SQS moves.
func (c *Client) changeDeadLetters(ctx context.Context, action, lambda string, d DeadLetterChange) (map[string]int64, []DeadLetterQueue, error) {
	request := &kinesinv1.ChangeDeadLettersRequest{Action: action, Lambda: lambda, Priority: d.Priority, Pace: uint32(max(0, d.Pace)), Purge: d.Purge}
	outcomes := map[string]int64{}
	var moves []DeadLetterQueue
	for {
		r, err := callSet(ctx, c, action+" dead letters", c.backend.dead.ChangeDeadLetters, request)
		if err != nil {
			return outcomes, moves, err
		}
		for outcome, n := range r.Outcomes {
			outcomes[outcome] += n
		}
		moves = append(moves, deadLetterQueuesOf(r.Queues)...)
		if !r.More {
			return outcomes, moves, nil
		}
		d.tell(outcomes)
		request.Began = r.Began
	}
}

func (d *DeadLetterChange) tell(outcomes map[string]int64) {
	if d.Progress != nil {
		d.Progress(maps.Clone(outcomes))
	}
}

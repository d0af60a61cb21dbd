package queue

import (
	"context"
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// Sentinels of dead-letter queues.
var (
	// ErrNoDeadLetters says that the queue of a lambda has no dead-letter queue.
	ErrNoDeadLetters = errors.New("no dead-letter queue")
	// ErrNoMoves says that the service cannot move messages by itself.
	ErrNoMoves = errors.New("the queue service has no moves")
	// ErrDenied says that the permissions of this process do not allow a request to the queue service.
	ErrDenied = errors.New("the servers' own permissions do not allow it")
	// ErrPurging says that the service purges the queue already.
	ErrPurging = errors.New("the queue is being purged")
)

// DeadLetterPaceMax is the highest pace of a redrive or delete, in messages a second: that of SQS.
const DeadLetterPaceMax = 500

// DeadLetters is an optional capability of a Deliverer: the messages that consumers received too often and
// never deleted. A caller finds the queue of a lambda's priority first; ErrDenied is from any method.
type DeadLetters interface {
	// FindDeadLetters returns the dead-letter queue of a lambda's priority, ErrNoDeadLetters when there is
	// none, and ErrMissing when a queue does not exist.
	FindDeadLetters(ctx context.Context, l task.Lambda, priority string) (DeadLetterQueue, error)
	// CountDeadLetters returns about how many messages there are, and the latest move.
	CountDeadLetters(ctx context.Context, q *DeadLetterQueue) (count int, latest *Move, err error)
	// PeekDeadLetters returns up to limit messages, with payloads until these have bytesMax together; 0
	// leaves payloads out. It hides messages from others until it returns, or for DeadLetterHiddenMax.
	PeekDeadLetters(ctx context.Context, q *DeadLetterQueue, limit, bytesMax int) ([]DeadLetter, error)
	// MoveDeadLetters has the service move messages back to where they came from, and returns its move. When
	// one is running, it returns that. ErrNoMoves says that the service has no moves.
	MoveDeadLetters(ctx context.Context, q *DeadLetterQueue, pace int) (Move, error)
	// ChangeDeadLetters moves or deletes some messages itself; more says that there may be others.
	ChangeDeadLetters(ctx context.Context, q *DeadLetterQueue, s DeadLetterStep) (changed int, more bool, err error)
	// PurgeDeadLetters has the service delete all messages, within a minute; ErrPurging when it does already.
	PurgeDeadLetters(ctx context.Context, q *DeadLetterQueue) error
}

// DeadLetterHiddenMax is how long a message is hidden that was received and left there.
const DeadLetterHiddenMax = 30 * time.Second

// DeadLetterQueue is the dead-letter queue of a lambda's priority.
type DeadLetterQueue struct {
	Priority    string
	Source      string // name of the queue of the lambda
	Name        string
	Handle      string // the driver's own: the ARN
	ReceivesMax int    // receives after which a message goes there
}

// DeadLetter is a message of a dead-letter queue.
type DeadLetter struct {
	TaskID    string // public id of the task, as the message has it; anybody who may send can write one
	MessageID string
	Due, Sent task.Instant // 0: not known
	Receives  int

	PayloadBytes int
	Payload      []byte // if asked for
}

// States of a move.
const (
	MoveRunning = "running"
	MoveUnknown = "unknown" // the service does not tell; Problem says why
)

// Move is a job of the service that moves messages back to where they came from.
type Move struct {
	State   string // MoveRunning, MoveUnknown, completed, cancelling, cancelled or failed
	Moved   int64  // messages, about
	Total   int64  // messages when it began, about
	Started task.Instant
	Problem string // why it failed
}

// DeadLetterStep is a part of a change of dead letters.
type DeadLetterStep struct {
	Redrive bool         // move back; else delete
	Before  task.Instant // leave messages that were put on the lambda's queue later: those of this very change, too
	Pace    int          // messages a second; 0: as fast as the service
	For     time.Duration
}

// DeadLetters returns the driver's capability; ErrCannotDeliver if it has none.
func (q *Queue) DeadLetters() (DeadLetters, error) {
	if d, can := q.d.(DeadLetters); can {
		return d, nil
	}
	return nil, ErrCannotDeliver
}

package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// Class separates the messages of one <lambda, priority>.
type Class uint8

// The classes of messages.
const (
	// Normal messages go to any free slot.
	Normal Class = iota
	// Suspect messages are of tasks whose worker was lost once; they have waited for its lease and go first,
	// together.
	Suspect
	// Blamed messages are of suspects that lost another worker; one begins in quarantine, with nothing else
	// in its process that is as young, so that a poison task is found alone.
	Blamed
)

// Name is one queue: there is one for each <lambda, priority>, and two small ones beside it for suspects.
type Name struct {
	Lambda   uint32 // task.Lambda.Ref
	Priority uint8
	Class    Class
}

func (n Name) String() string { return fmt.Sprintf("%08x/%d/%d", n.Lambda, n.Priority, n.Class) }

// NameFor is the queue a task's message goes to.
func NameFor(t *task.Task) Name {
	n := Name{Lambda: t.Partition.Lambda, Priority: t.Partition.Priority}
	switch {
	case t.Suspect && t.Blamed > 0:
		n.Class = Blamed
	case t.Suspect:
		n.Class = Suspect
	}
	return n
}

// Message carries an enqueued task as it was stored when it was sent: Task.Seq fences stale
// messages, Task.HeldUntil holds back early ones. The store, not the queue, is the truth.
type Message struct {
	Task task.Task
	// Receipt is the driver's handle of this delivery; empty until received.
	Receipt string
	// Again says that this delivery is not the first, as far as the driver knows. Then the task has most
	// likely been claimed, and the row is read before a claim is written: a write that is refused costs as
	// much as another one.
	Again bool
}

// Driver is what an implementer of a queue writes; the suite in queuetest says what is owed.
// Delivery is at least once and in no promised order, except that a driver tries to hand out
// the earliest due first. All methods are safe for concurrent use.
type Driver interface {
	// Send puts messages on their queues (NameFor). results[i] is nil when messages[i] is in its queue;
	// ErrFull when as many messages as its bound wait there; any other error: it may or may not be there.
	Send(ctx context.Context, messages []Message) (results []error)
	// Receive waits until one of the queues has a message due at or before now+ahead/2 (or ctx ends) and
	// returns up to limit messages due at or before now+ahead, those of earlier names first. A driver that
	// cannot look ahead treats ahead as 0. A received message is invisible to others until it is deleted,
	// released, or its visibility timeout passes (a driver in memory has none).
	Receive(ctx context.Context, names []Name, limit int, ahead time.Duration) ([]Message, error)
	// Delete removes received messages for good.
	Delete(ctx context.Context, messages []Message) error
	// Release makes received messages visible again after delay.
	Release(ctx context.Context, messages []Message, delay time.Duration) error
	// Depth is what is known of one queue.
	Depth(ctx context.Context, name Name) (Depth, error)
	// Room returns a channel that is closed when the queue, now at its bound, has room again; a
	// driver that cannot tell returns nil and is asked for its Depth instead.
	Room(name Name) <-chan struct{}
	// Durable reports whether messages outlive the process. If not, the scheduler sends
	// every enqueued task again when it takes a partition over.
	Durable() bool
	// Close ends all waiting Receives with ErrClosed.
	Close() error
}

// Dropper is an optional capability of a driver: forgetting the messages of a lambda that is gone.
type Dropper interface {
	// Drop removes all messages of the lambda, received or not.
	Drop(ctx context.Context, lambda uint32) error
}

// Stepper is an optional capability of a driver that counts by the wall clock of this process.
type Stepper interface {
	// ClockStepped tells that the wall clock was set: forward, or back when by is negative.
	ClockStepped(by time.Duration)
}

// Depth is the state of one queue.
type Depth struct {
	Visible  int           // waiting, due or not
	InFlight int           // received and not yet deleted or released
	Oldest   time.Duration // how long the oldest due message has waited; 0 for none
}

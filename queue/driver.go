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
	// Suspect messages are of tasks whose worker was lost once. They go first, together, when its lease has
	// ended.
	Suspect
	// Blamed messages are of suspects that lost another worker. Each runs in quarantine, without other tasks
	// as young in its process, so that a poison task is found alone.
	Blamed
)

// Name identifies a queue. Each <lambda, priority> has one, and two small ones for suspects.
type Name struct {
	Lambda   uint32 // task.Lambda.Ref
	Priority uint8
	Class    Class
}

// String returns the name in a form for logs.
func (n Name) String() string { return fmt.Sprintf("%08x/%d/%d", n.Lambda, n.Priority, n.Class) }

// NameFor returns the queue of a task.
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

// Message carries an enqueued task as it was stored when it was sent. Task.Seq fences stale messages;
// Task.HeldUntil holds back early ones.
type Message struct {
	Task task.Task
	// Receipt is the driver's handle of this delivery; empty until received.
	Receipt string
	// Again says that the driver knows of an earlier delivery. The task was probably claimed then, so its row
	// is read before a claim is written: a refused write costs as much as any other.
	Again bool
}

// Driver is implemented by each kind of queue; the suite in queuetest checks it. Delivery is at least once
// and in no promised order; a driver tries to hand out the earliest due first. All methods are safe for
// concurrent use.
type Driver interface {
	// Send puts messages on their queues (NameFor). results[i] is nil when messages[i] is in its queue, and
	// ErrFull when that is at its bound; after any other error it may or may not be there.
	Send(ctx context.Context, messages []Message) (results []error)
	// Receive waits until one of the queues has a message due at or before now+ahead/2, or until ctx ends. It
	// returns up to limit messages due at or before now+ahead, those of earlier names first. Where a lambda's
	// priorities have weights (Weigher), its queues take turns at giving what the first of them with messages
	// would give. A driver that cannot look ahead treats ahead as 0. A received message is hidden from others
	// until it is deleted or released, or its visibility timeout ends (a driver in memory has none).
	Receive(ctx context.Context, names []Name, limit int, ahead time.Duration) ([]Message, error)
	// Delete removes received messages for good.
	Delete(ctx context.Context, messages []Message) error
	// Release makes received messages visible again after delay.
	Release(ctx context.Context, messages []Message, delay time.Duration) error
	// Depth returns the depth of a queue as far as it is known.
	Depth(ctx context.Context, name Name) (Depth, error)
	// Room returns a channel that is closed when a queue at its bound has room again. A driver that cannot
	// tell returns nil; its callers ask for Depth instead.
	Room(name Name) <-chan struct{}
	// Durable reports whether messages outlive the process. If not, the scheduler sends every enqueued task
	// again when it takes over a partition.
	Durable() bool
	// Close makes all waiting Receives return ErrClosed.
	Close() error
}

// Dropper is an optional capability of a driver: removing the messages of a deleted lambda.
type Dropper interface {
	// Drop removes all messages of the lambda, received or not.
	Drop(ctx context.Context, lambda uint32) error
}

// Stepper is an optional capability of a driver that counts by the wall clock of this process.
type Stepper interface {
	// ClockStepped tells the driver that the wall clock was set: forward, or back when by is negative.
	ClockStepped(by time.Duration)
}

// Sealer is an optional capability of a driver whose messages others could write. It seals them, and hands
// out no message without its seal.
type Sealer interface {
	// UseSealer gives the driver what it seals with. It is called once, before Send and Receive.
	UseSealer(s task.Seal)
}

// Depth is the state of one queue.
type Depth struct {
	Visible  int           // waiting, due or not
	InFlight int           // received and not yet deleted or released
	Oldest   time.Duration // how long the oldest due message has waited; 0 for none
}

// Package dispatcher moves due tasks from the store to their lambdas' queues, or straight to a waiting
// worker. It owns the order of the two steps that make this safe, and the bound on the messages in a queue.
// First comes the conditional write that lets one dispatcher win, then the message or the direct hand-off.
// Where the queue is this process's memory the message goes alone, and its claim is that write. The package
// calls the store and the queue; it never decides when a task is due and never talks to workers.
//
// Its Starter decides how a task starts for all who start tasks, so inbound, hsc and chains use it too; hsc
// registers the slots that wait.
package dispatcher

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// DepthMaxDefault is how many messages are put on a queue at most.
const DepthMaxDefault = 8192

// Queue is what the dispatcher needs of a queue.
type Queue interface {
	Send(ctx context.Context, messages []queue.Message) []error
	Depth(ctx context.Context, name queue.Name) (queue.Depth, error)
	Room(name queue.Name) <-chan struct{}
	Durable() bool
}

// Config is what a Dispatcher is made of. Everything is required up to Log.
type Config struct {
	*Starter

	Store    store.Writer
	Log      *slog.Logger
	DepthMax int // messages per queue; 0: DepthMaxDefault
	// Starts returns how many tasks of a queue its quota lets start within a time; false where it has none.
	// nil: no queue has one.
	Starts func(name queue.Name, within time.Duration) (starts int, limited bool)
	// Occurrences decides about occurrences of crons, and stores those that follow. nil: there are none.
	Occurrences func(ctx context.Context, tasks []*task.Task) []task.Verdict
	Hooks       Hooks
}

// Hooks are called when something happened. A nil hook is not called.
type Hooks struct {
	// Lateness: a task's first message was sent, that long after its due time.
	Lateness func(t *task.Task, late time.Duration)
	// Unsent: n tasks are enqueued whose messages could not be sent; their wake-ups send them again.
	Unsent func(n int)
}

// Dispatcher carries out orders. It is safe for concurrent use.
type Dispatcher struct{ Config }

// New returns a dispatcher.
func New(c Config) *Dispatcher {
	c.DepthMax = cmp.Or(c.DepthMax, DepthMaxDefault)
	return &Dispatcher{c}
}

func unknownLambda(t *task.Task) error {
	return fmt.Errorf("task %s: its lambda is not known here", t.ID)
}

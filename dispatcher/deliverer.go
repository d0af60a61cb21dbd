package dispatcher

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/gather"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// DelivererStore is what a Deliverer needs of a store.
type DelivererStore interface {
	store.Writer
	Payload(ctx context.Context, id task.ID) ([]byte, error)
	PayloadsExpire() bool
}

// DelivererQueue is what a Deliverer needs of a queue.
type DelivererQueue interface {
	Deliver(ctx context.Context, deliveries []queue.Delivery) []error
}

// Sealer makes public ids.
type Sealer interface{ SealTask(t *task.Task) string }

// DelivererConfig is what a Deliverer is made of. Everything but Hooks, Ended and Together is required.
type DelivererConfig struct {
	Store   DelivererStore
	Queue   DelivererQueue
	Lambdas Lambdas
	Sealer  Sealer
	Clock   clock.Clock
	Log     *slog.Logger
	Hooks   DelivererHooks
	Ended   func(ids []task.ID) // called with tasks that are on their lambda's queue; may be nil
	// Together is the most that a task is sent late so that it shares a request with others: most of what a
	// delivery costs is its requests. 0: each task is sent when it is due.
	Together time.Duration
}

// DelivererHooks are called when something happened. A nil hook is not called.
type DelivererHooks struct {
	// Delivered: a task is on its lambda's queue, that long after its due time.
	Delivered func(t *task.Task, late time.Duration)
	// Undelivered: a task could not be put there and is tried again.
	Undelivered func(t *task.Task, err error)
	// Dropped: a task has ended undelivered, since no try could ever send it.
	Dropped func(t *task.Task)
}

// Deliverer puts the tasks of deliver lambdas on their lambdas' queues. It owns the order of the three steps
// after the schedule: acquire the row, send, delete the row. A crash between two of them loses nothing:
// whoever finds the row sends again, so that a consumer gets each task at least once. It never decides when a
// task is due or who owns it. Concurrent calls share sends and deletes. It is safe for concurrent use.
type Deliverer struct {
	DelivererConfig

	deletes *gather.Gatherer[*delivery] // sent tasks whose rows are to go: most of what a delete costs is its request

	mu       sync.Mutex // guards the outboxes
	outboxes map[task.Partition]*outbox
}

// NewDeliverer returns a Deliverer.
func NewDeliverer(c DelivererConfig) *Deliverer {
	d := &Deliverer{DelivererConfig: c, outboxes: map[task.Partition]*outbox{}}
	d.deletes = d.newDeletes()
	return d
}

// deliverCall is one call of Deliver.
type deliverCall struct {
	*Deliverer

	mu   sync.Mutex // guards left, and the state of the call's deliveries
	left []task.Undelivered
}

// delivery is an acquired task on its way: to its queue, then its row is deleted.
type delivery struct {
	call    *deliverCall
	order   task.Order // Sent is guarded by call.mu
	payload []byte
	closed  bool          // guarded by call.mu
	done    chan struct{} // closed with it
}

// outbox holds the acquired tasks of one queue until they are sent: those of all its partitions and of all
// calls. Tasks that are due within Together of the first are sent in one request when the last of them is
// due. A task with no other due so soon after it is sent when it is due. The outbox knows which, since tasks
// are acquired further ahead than Together.
type outbox struct {
	queue      task.Partition // without its shard
	deliveries []*delivery    // in order of due time
	changed    chan struct{}  // has an element when the next send may be earlier than planned
}

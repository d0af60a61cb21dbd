package sqs

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/gather"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// The driver, its lanes and the messages in hand name each other, so their types stand together; what is done
// with them stands in the files above.

// Driver implements queue.Driver, queue.Dropper, queue.Deliverer, queue.Provisioner, queue.Sealer and
// queue.Weigher.
type Driver struct {
	Config

	api      API
	sealer   task.Seal // set before Send and Receive
	client   *sqsclient.Client
	prefetch *prefetch

	ctx    context.Context //nolint:containedctx // of the driver's requests, which outlive the calls they serve
	cancel context.CancelFunc
	open   context.Context //nolint:containedctx // ends with Close, as do the goroutines that wait
	end    context.CancelFunc
	closed atomic.Bool

	life    sync.Mutex     // orders additions to running before the wait of Close
	running sync.WaitGroup // polls and the timekeeper

	mu      sync.Mutex // guards lanes and removed
	lanes   map[laneKey]*lane
	removed []*lane // of lambdas that are gone, for Close
}

// usable returns why a call cannot be served.
func (d *Driver) usable(ctx context.Context) error {
	if d.closed.Load() {
		return queue.ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// laneKey identifies an SQS queue; messages of all classes share it.
type laneKey struct {
	lambda   uint32
	priority uint8
}

func keyOf(n queue.Name) laneKey { return laneKey{n.Lambda, n.Priority} }

// lane is one SQS queue with the messages on their way to and from it.
type lane struct {
	driver *Driver
	key    laneKey
	name   string // of the SQS queue
	mode   task.Mode

	sends, aheadSends *sender                            // of what is due soon, and of what has time
	deletes           *gather.Gatherer[string]           // of receipt handles
	hides             *gather.Gatherer[sqsclient.Hidden] // changes of visibility
	polls             polls
	depths            depths
}

// sender batches what is sent to one queue.
type sender = gather.Gatherer[*outgoing]

// outgoing is a task or a delivery to send.
type outgoing struct {
	delivery *sqsclient.Message // nil for a task
	field    []byte             // the encoded task
	due      task.Instant
	after    time.Duration // hides the message at least so long
	alone    bool          // shares its message with no other task
	trace    string
	err      error       // the result of the send
	done     func(error) // is told the result; nil: nobody is
}

// polls is the state of a lane's polls.
type polls struct {
	mu       sync.Mutex // guards all below
	running  int
	isFull   bool // the latest poll returned as many messages as it asked for
	failures int  // in a row

	tasksPerMessage float64 // moving average of the messages received
}

// prefetch holds the messages that this process has received and not settled. Their tasks wait here for
// a receiver, those of each name in order of due time.
type prefetch struct {
	mu        sync.Mutex // guards all below
	messages  map[string]*heldMessage
	waiting   map[queue.Name][]*heldTask // the earliest due first; among equals, the first received
	taken     map[string]*heldTask       // by receipt
	receivers []*receiver                // in order of arrival
	turns     queue.Turns
	asked     map[laneKey]task.Instant // by clock.Steady: since when a poll of a lane has brought nothing
	answerMax time.Duration
	receipts  uint64
	isTimed   bool // the timekeeper runs
	closed    bool

	changed chan struct{} // wakes the timekeeper: a task may be due sooner
}

// heldMessage is a received SQS message.
type heldMessage struct {
	lane     *lane
	id       string       // unique in this process
	handle   string       // of its latest delivery
	received task.Instant // by clock.Steady
	renewAt  task.Instant // by clock.Steady: when to hide it for longer
	tasks    []*heldTask
	open     int // tasks that are not done
}

// heldTask is one task of a received message.
type heldTask struct {
	of      *heldMessage
	message queue.Message
	since   task.Instant // by clock.Steady: when it was due and waited here
	receipt string       // of the receiver that has it; empty while it waits
	done    bool
}

func (t *heldTask) due() task.Instant { return t.message.Task.HeldUntil() }

func (t *heldTask) name() queue.Name { return queue.NameFor(&t.message.Task) }

// receiver is a Receive call that waits.
type receiver struct {
	names []queue.Name
	limit int
	ahead time.Duration
	since task.Instant         // by clock.Steady: when it began
	got   chan []queue.Message // closed with the driver
}

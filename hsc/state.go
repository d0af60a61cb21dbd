package hsc

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Service, sessions, streams and slot groups name each other, so their types stand together; their methods are in the files
// about what they do.

// attempt names one try of one task.
type attempt struct {
	id     task.ID
	number uint32
}

// session is what this process knows of one worker process.
type session struct {
	worker string
	lease  time.Duration
	terms  lease.Lease // as the worker registered; only what no heartbeat changes is read

	ends atomic.Int64 // task.Instant of the lease's end by clock.Steady, as last known here

	mu       sync.Mutex // guards what follows and the slot groups of the stream; never held across I/O
	stream   *stream    // the newest, nil when it has ended
	lost     bool       // the lease has ended
	assigned map[task.ID]*assignment

	suspect       suspectState
	suspectsAfter task.Instant             // no blamed task is taken before, by clock.Steady
	polls         map[*poll]bool           // claims under way
	polled        map[task.ID]task.Instant // attempts that were claimed by calls, and when they began
	named         map[attempt]bool         // those that the worker named when it last claimed again; nil: it never did
	namedOf       map[uint32]bool          // the lambdas for which it did: what it did not name then has not reached it

	running  map[task.ID]uint32 // attempts that are known to run, and whose cancel nobody requested
	reviewAt task.Instant       // when all rows are read again; zero: with the next heartbeat
	attend   uint64             // of the lease, as last seen
}

// poll is a claim by a call.
type poll struct {
	lambdas []string
	end     context.CancelCauseFunc
}

// assignment is an attempt that the worker has or is about to get. Its fields are guarded by session.mu once
// it is in session.assigned.
type assignment struct {
	row      *task.Task // as last stored here; what it points to never changes
	group    *slotGroup // whose slot it takes; nil for none
	sent     bool       // it may have reached the worker
	freed    bool       // its slot is free: its result was received, or it is over
	unstored bool       // it is counted in group.unstored
}

// slotGroup is one group of slots of a stream.
type slotGroup struct {
	lambdas   []string
	slots     int
	slotsOnly bool // no prefetch

	idleSince atomic.Int64 // when its loop began to wait for a message, in monotonic time; 0 while it does not

	// Guarded by session.mu.
	used          int
	unstored      int // results that were received and are not stored
	durations     durations
	cancelReceive context.CancelFunc // ends the Receive under way; nil when there is none

	// changed holds one value when a slot came free or the queues to poll changed.
	changed chan struct{}
}

// durations is a moving mean of how long the attempts of a slot group take.
type durations struct {
	mean  time.Duration
	known bool
}

// conn is the server's side of a Work stream.
type conn interface {
	Receive() (*kinesinv1.WorkRequest, error)
	Send(response *kinesinv1.WorkResponse) error
}

// stream is one Work call. One goroutine reads, one stores reports, one writes, and one for each slot group
// claims.
type stream struct {
	svc     *Service
	sess    *session
	conn    conn
	groups  []*slotGroup
	process Process // at the other end, nil when it cannot be seen from here

	ctx    context.Context //nolint:containedctx // the life of the stream, which other calls may end
	stop   context.CancelCauseFunc
	detach func() bool // keeps the end of the service from ending ctx

	requests chan *kinesinv1.WorkRequest // read and not yet stored; closed by the reader
	batch    reportBatch                 // used by storeReports alone

	// Guarded by session.mu.
	draining bool // no more tasks are to be claimed
	closed   bool // nothing more of the outbox is sent
	outbox   outbox

	outboxReady chan struct{} // holds one value when the outbox has something or is finished
	outboxTaken chan struct{} // holds one value when the writer took from the outbox
}

// delivery is a won claim as it goes to the worker.
type delivery struct {
	*assignment

	wire *kinesinv1.Claimed
}

// outbox is what waits to be sent.
type outbox struct {
	tasks    []delivery
	acks     []*kinesinv1.ResultAck
	since    task.Instant // when the first of acks came, by clock.Steady
	cancels  []*kinesinv1.Held
	finished bool // nothing will be added
}

// report is a start or a result that a worker reports, on its way into the task's row.
type report struct {
	attempt

	event task.Event           // Finish or Start; worker and attempt are filled in
	row   *task.Task           // as last seen; nil: to be read
	add   *kinesinv1.Followups // more follow-ups of the task, if it succeeds
	chain *task.Chain          // of the task, with add

	done    bool
	problem *kinesinv1.Problem // of a report that is done; nil: it is stored

	next   task.Task // the row as changed
	effect task.Effect
	entry  *catalog.Entry
	at     int  // which of the writes changes the task row
	moved  bool // the wake-up row goes to another place
	stored bool // this report has changed the row
}

// reportBatch is the memory in which reports are prepared; a stream uses the same one again and again.
type reportBatch struct {
	// awaited says that a call waits for the acks. On a stream the slots are free already, so the writes may
	// wait for others.
	awaited  bool
	reports  []report
	ops      []store.Op
	needless []task.Task // their wake-up rows are not needed any more
}

// workList is what the service has to do besides answering calls. Run does it, in rounds. It has three kinds
// of work: send the messages that a queue did not take, notify workers of cancels through their leases, and
// release the claims of an earlier process.
type workList struct {
	clock   clock.Clock
	started clock.Readings // an earlier process wrote the claims from before
	added   chan struct{}  // holds one value when there is something new

	mu       sync.Mutex
	messages []queue.Message        // of tasks that are enqueued in the store
	notices  map[string]notice      // by worker
	claims   map[string][]task.Task // by worker; they wait until it has said what it holds
	pending  bool                   // there is something to do at nextRound
	at       task.Instant           // when the next round begins, by clock.Steady
	failures int                    // rounds in a row in which something failed
}

// notice tells a worker, through its lease, that its next heartbeat must read all rows.
type notice struct {
	until    task.Instant // by then the worker has read all rows anyway
	failures int
}

// suspectState is the one blamed task that a process runs or is about to get. The zero suspectState is none.
type suspectState struct {
	id      task.ID
	claimed bool         // its claim was decided
	began   task.Instant // when the quarantine began, by clock.Steady
	ends    task.Instant // when the quarantine ends, by clock.Steady; known once it is claimed
	ended   bool         // the quarantine is over: others are taken beside it
	readAt  task.Instant // when it was read from the lease, by clock.Steady; 0: it was reserved here
}

// accepted says which tasks a worker process accepts at the moment.
type accepted struct {
	anything, suspects, blamed bool
	// backoff is how long the process accepts no blamed task at most; zero: until something changes.
	backoff time.Duration
}

// Service serves workers. All methods are safe for concurrent use.
type Service struct {
	Config

	calls        sync.WaitGroup  // handlers, and the goroutines that they started
	lifetime     context.Context //nolint:containedctx // ends when Run is asked to stop
	shutDown     context.CancelFunc
	work         workList
	recentClaims *recentClaims // nil where no message comes twice

	mu       sync.Mutex // guards sessions and the end of lifetime; never held across I/O
	sessions map[string]*session
}

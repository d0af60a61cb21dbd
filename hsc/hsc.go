// Package hsc is the heartbeat and status controller: it serves claims, heartbeats and results to worker
// processes, over a stream or call by call (WorkerService of the wire contract).
//
// It owns the move of a task from enqueued to claimed, processing and the end of its attempt. It receives
// messages from the lambda queues, reserves slots for tasks that need no message, changes task rows through
// task.Task.Apply under compare-and-set, and keeps the leases of workers. Its memory is only a cache: any
// instance can serve any worker, and one that is killed loses nothing.
//
// It never decides when a task is due and starts no attempt early: it tells the worker how long to hold a
// task. It never takes tasks back from a silent worker, unless it sees that the worker's process has ended.
package hsc

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// AheadDefault is how long before its due time a task may be claimed; the worker holds it until then.
const AheadDefault = 40 * time.Millisecond

const (
	sessionsSweepEvery = 10 * time.Second
	leasesSweepEvery   = 10 * time.Minute
)

// storeRetry are the pauses between the repetitions of a call to the store or the queue.
var storeRetry = backoff.Policy{Min: 10 * time.Millisecond, Max: 2 * time.Second}

// Store is what the HSC needs of a store.
type Store interface {
	Apply(ctx context.Context, ops []store.Op) ([]error, error)
	Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error)
	Payload(ctx context.Context, id task.ID) ([]byte, error)
	PayloadsExpire() bool
}

// Queue is what the HSC needs of the lambda queues.
type Queue interface {
	Send(ctx context.Context, messages []queue.Message) []error
	Receive(ctx context.Context, names []queue.Name, limit int, ahead time.Duration) ([]queue.Message, error)
	Delete(ctx context.Context, messages []queue.Message) error
	Release(ctx context.Context, messages []queue.Message, delay time.Duration) error
	Durable() bool
}

// Catalog finds lambdas.
type Catalog interface {
	Lambda(name string) (*catalog.Entry, error)
	// Find also finds a lambda that another process created a moment ago.
	Find(ctx context.Context, name string) (*catalog.Entry, error)
	ByRef(ref uint32) *catalog.Entry
	Changed() <-chan struct{}
}

// Scheduler fires wake-ups. The HSC tells it of the wake-ups that it sets, so that the scheduler need not
// find them in the store. Its methods must not block.
type Scheduler interface {
	// FiresWithin reports whether this process will fire a task of the partition from memory if it wakes at
	// that instant. Then its wake-up row stays where it is.
	FiresWithin(p task.Partition, at task.Instant) bool
	// Awake adds the wake-up of a stored task.
	Awake(t task.Task)
	// Done forgets the wake-up rows that the tasks name: each task ended, or moved to another row, of which a
	// later Awake tells. It must not keep rows.
	Done(rows []task.Task)
	// PutBack tells of a task that a gate holds, and that was put back instead of claimed. Without hasRow it
	// has no task row, and its message is gone.
	PutBack(t task.Task, hasRow bool)
}

// Config configures a Service. Scheduler may be nil: then every retry gets a wake-up row of its own.
type Config struct {
	Store     Store
	Queue     Queue
	Catalog   Catalog
	Leases    *lease.Book
	Sealer    *task.Sealer
	Scheduler Scheduler
	Clock     clock.Clock
	Log       *slog.Logger
	Hooks     Hooks
	// Ended is called with tasks that reached their end. It may be nil.
	Ended func(ids []task.ID)

	// Caller returns the identity that makes a call, whose are the leases that it registers: claims,
	// heartbeats, results and the end of a lease of another identity are refused. nil: all calls are of one.
	Caller func(ctx context.Context) string
	// Foreign is called when such a call of another identity is refused. It may be nil.
	Foreign func(ctx context.Context, worker string)
	// Execute refuses a caller that may not run the tasks of a lambda; without one, of any lambda. nil: every
	// caller may.
	Execute func(ctx context.Context, lambda string) error

	// Extend returns the chain of a task with what its handler adds to what follows it, after that was
	// checked and stored. nil: handlers add nothing.
	Extend func(ctx context.Context, t *task.Task, add *kinesinv1.Followups) (*task.Chain, error)
	// Traceparent returns the trace context for the handler of a claimed task; nil: that of the task.
	Traceparent func(t *task.Task) string
	// Limited reports whether tasks of a lambda wait until others have ended, whose results are then sent and
	// stored without waiting for others. nil: none do.
	Limited func(lambda uint32) bool
	// Held reports whether a gate holds a task back, so that it must not be claimed now. nil: none does.
	Held func(t *task.Task, now task.Instant) bool

	// WatchProcess watches worker processes on this machine. nil: none is watched.
	WatchProcess WatchProcess

	// Process is the name of this process in the rows that it enqueues again; empty where it schedules
	// nothing.
	Process string

	Ahead time.Duration // 0: AheadDefault
	// Silence is the longest time between two messages of a stream. Its worker closes a stream that is silent
	// for twice as long, because tasks that come later were held up on the way. 0: SilenceDefault; negative:
	// no limit.
	Silence time.Duration
	// SlotsOnly turns prefetch off: a worker gets no tasks beyond its free slots.
	SlotsOnly bool
}

// Service serves workers. All methods are safe for concurrent use.
type Service struct {
	Config

	calls         sync.WaitGroup  // handlers, and the goroutines that they started
	lifetime      context.Context //nolint:containedctx // ends when Run is asked to stop
	shutDown      context.CancelFunc
	work          workList
	subscriptions subscriptions
	recentClaims  *recentClaims // nil where no message comes twice

	mu       sync.Mutex // guards sessions and the end of lifetime; never held across I/O
	sessions map[string]*session
}

// New returns a service that serves at once. Run does its background work.
func New(c Config) *Service {
	if c.Ahead == 0 {
		c.Ahead = AheadDefault
	}
	c.Silence = max(0, cmp.Or(c.Silence, SilenceDefault))
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Hooks = c.Hooks.withDefaults()
	s := &Service{Config: c, sessions: map[string]*session{}, work: newWorkList(c.Clock)}
	s.lifetime, s.shutDown = context.WithCancel(context.Background())
	s.subscriptions.byLambda = map[string][]subscription{}
	if c.Queue.Durable() {
		s.recentClaims = newRecentClaims()
	}
	return s
}

// Run does the background work until ctx ends: it follows changes of the lambdas, does the work list, and
// forgets workers that are gone. Then it ends all streams with "unavailable", so that workers connect to
// another server, and returns when every call has returned.
func (s *Service) Run(ctx context.Context) error {
	sessions, leases := s.Clock.NewTimer(sessionsSweepEvery), s.Clock.NewTimer(leasesSweepEvery)
	work := s.Clock.NewTimer(workRetry.Max)
	defer sessions.Stop()
	defer leases.Stop()
	defer work.Stop()
	changed := s.Catalog.Changed()
	s.pollAgain() // streams that were opened before may have missed a change
	for {
		if wait, pending := s.work.wait(); pending {
			work.Reset(wait)
		} else {
			work.Stop()
		}
		select {
		case <-s.work.added:
		case <-work.C():
			s.doWork(ctx)
		case <-changed:
			changed = s.Catalog.Changed()
			s.pollAgain()
		case <-sessions.C():
			s.sweepSessions()
			s.pollAgain()
			sessions.Reset(sessionsSweepEvery)
		case <-leases.C():
			s.sweepLeases(ctx)
			leases.Reset(leasesSweepEvery)
		case <-ctx.Done():
			s.mu.Lock()
			s.shutDown()
			s.mu.Unlock()
			s.calls.Wait()
			return nil
		}
	}
}

func (s *Service) sweepLeases(ctx context.Context) {
	if _, err := s.Leases.Sweep(ctx); err != nil && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "sweep of worker leases failed", slog.Any("error", err))
	}
}

// begin admits a call; the caller must call end when it is over.
func (s *Service) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lifetime.Err() != nil {
		return errStopping
	}
	s.calls.Add(1)
	return nil
}

func (s *Service) end() { s.calls.Done() }

// inBackground runs act in a goroutine that Run waits for, or at once when the service is stopping.
func (s *Service) inBackground(act func()) {
	if s.begin() != nil {
		act()
		return
	}
	go func() {
		defer s.end()
		act()
	}()
}

// taskRows reads task rows. One that is damaged or of a newer version has an ID and no state, so that its
// attempt is refused and those of the others go on. Store.Tasks alone would fail when it is asked for such a
// row only.
func (s *Service) taskRows(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	rows, err := s.Store.Tasks(ctx, ids)
	if len(ids) == 1 && store.IsUnreadable(err) {
		s.Hooks.Failed("read a task row", err)
		return []task.Task{{ID: ids[0]}}, nil
	}
	return rows, err
}

// policy returns the policy and the lambda of a task; a task whose lambda is gone gets the default policy.
func (s *Service) policy(t *task.Task) (task.Policy, *catalog.Entry) {
	if entry := s.Catalog.ByRef(t.Partition.Lambda); entry != nil {
		return entry.PolicyFor(t), entry
	}
	defaults := task.Lambda{}.WithDefaults()
	return defaults.PolicyFor(t), nil
}

// isConflict reports whether a write was refused because the row had changed, and returns the row if the
// error carries it.
func isConflict(err error) (*task.Task, bool) {
	if seen, ok := errors.AsType[*store.ConflictError](err); ok {
		return seen.Task, true
	}
	return nil, errors.Is(err, store.ErrConflict)
}

// wake leaves a value in a channel of capacity one, for a loop that waits on it.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

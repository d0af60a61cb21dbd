// Package hsc is the heartbeat and status controller: it serves claims,
// heartbeats and results to worker processes, over a stream or call by call
// (WorkerService of the wire contract).
//
// It owns the move of a task from enqueued to claimed, processing and the end of its attempt; it receives
// from the lambda queues, reserves slots for tasks that need no queue, changes task rows through
// task.Task.Apply under compare-and-set, and keeps the leases of workers. What it holds in memory is only a
// shortcut: any instance can serve any worker, and one that is killed loses nothing. It never takes tasks
// back from a silent worker, unless it sees that its process has ended; it never decides when a task is due,
// and starts no attempt early: a worker is told how long to hold.
package hsc

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

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

// Store is what the HSC needs of a store.
type Store interface {
	Apply(ctx context.Context, ops []store.Op) ([]error, error)
	Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error)
	Payload(ctx context.Context, id task.ID) ([]byte, error)
}

// Queue is what the HSC needs of the lambda queues.
type Queue interface {
	Send(ctx context.Context, messages []queue.Message) []error
	Receive(ctx context.Context, names []queue.Name, limit int, ahead time.Duration) ([]queue.Message, error)
	Delete(ctx context.Context, messages []queue.Message) error
	Release(ctx context.Context, messages []queue.Message, delay time.Duration) error
	Durable() bool
}

// Catalog tells the lambdas this process knows.
type Catalog interface {
	Lambda(name string) (*catalog.Entry, error)
	// Find also finds what another process created a moment ago.
	Find(ctx context.Context, name string) (*catalog.Entry, error)
	ByRef(ref uint32) *catalog.Entry
	Changed() <-chan struct{}
}

// Scheduler fires wake-ups. It is told of those that are set here, so that they need not wait to be found. It
// must not block.
type Scheduler interface {
	// FiresWithin reports whether this process will fire a task of the partition from memory if it wakes at
	// that instant. Its wake-up row then stays where it is.
	FiresWithin(p task.Partition, at task.Instant) bool
	// Awake says that the stored task has the wake-up it carries.
	Awake(t task.Task)
	// Done says that the wake-up rows that the tasks name are needless, so that the scheduler can forget
	// them: each task ended, or moved to another row, which Awake tells of next. rows must not be kept.
	Done(rows []task.Task)
}

// Config is what a Service is made of. Scheduler may be nil: then every retry gets a wake-up row of its own.
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
	// Ended is told that a task reached its end, or several did. nil: nobody wants to know.
	Ended func()

	// Beside sees worker processes that run beside this one. nil: none is seen.
	Beside Beside

	// Process is the name of this process in the rows that it sends back to their queues; empty where it
	// fires nothing.
	Process string

	Ahead time.Duration // 0: AheadDefault
	// Silence is for how long a stream says nothing at most. Its worker closes one that is silent for longer:
	// what comes after that was held up on its way. 0: SilenceDefault; negative: it may be silent.
	Silence time.Duration
	// SlotsOnly keeps a worker from getting tasks beyond its free slots, however short its attempts are.
	SlotsOnly bool
}

// Service serves workers. All methods are safe for concurrent use.
type Service struct {
	Config

	calls     sync.WaitGroup // handlers, and what they started
	stopping  chan struct{}  // closed when stopped is set
	found     found
	attention attention
	unsent    unsent
	seats     seats
	served    *served // nil where no message comes twice

	mu       sync.Mutex // guards what follows; never held across I/O
	sessions map[string]*session
	stopped  bool
}

// New returns a service that serves at once; Run keeps it in order.
func New(c Config) *Service {
	if c.Ahead == 0 {
		c.Ahead = AheadDefault
	}
	c.Silence = max(0, cmp.Or(c.Silence, SilenceDefault))
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{
		Config: c, stopping: make(chan struct{}), sessions: map[string]*session{},
		found:     found{since: c.Clock.Now(), news: make(chan struct{}, 1), byWorker: map[string][]task.Task{}},
		attention: attention{news: make(chan struct{}, 1), workers: map[string]call{}},
		unsent:    unsent{news: make(chan struct{}, 1)},
	}
	s.seats.byLambda.Store(&map[string][]seat{})
	if c.Queue.Durable() {
		s.served = newServed()
	}
	return s
}

// Run follows changes of the lambdas and forgets workers that are gone, until ctx ends. Then it
// ends all streams with "unavailable", which workers answer by connecting elsewhere, and
// returns when every call has returned.
func (s *Service) Run(ctx context.Context) error {
	sessions, leases := s.Clock.NewTimer(sessionsSweepEvery), s.Clock.NewTimer(leasesSweepEvery)
	defer sessions.Stop()
	defer leases.Stop()
	resend := s.Clock.NewTimer(resendMax)
	defer resend.Stop()
	call := s.Clock.NewTimer(resendMax)
	defer call.Stop()
	for {
		if wait, some := s.unsent.wait(); some {
			resend.Reset(wait)
		} else {
			resend.Stop()
		}
		if wait, some := s.attention.wait(clock.Steady(s.Clock)); some {
			call.Reset(wait)
		} else {
			call.Stop()
		}
		changed := s.Catalog.Changed()
		s.pollAnew()
		select {
		case <-changed:
		case <-s.found.news:
			s.giveBackFound(ctx)
		case <-s.attention.news:
			s.callWorkers(ctx)
		case <-call.C():
			s.callWorkers(ctx)
		case <-s.unsent.news:
		case <-resend.C():
			s.sendUnsent(ctx)
		case <-sessions.C():
			s.forgetGone()
			sessions.Reset(sessionsSweepEvery)
		case <-leases.C():
			s.sweepLeases(ctx)
			leases.Reset(leasesSweepEvery)
		case <-ctx.Done():
			s.stop()
			s.calls.Wait()
			return nil
		}
	}
}

func (s *Service) sweepLeases(ctx context.Context) {
	if _, err := s.Leases.Sweep(ctx); err != nil && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "worker leases not swept", slog.Any("error", err))
	}
}

// begin admits a call; end must be called when it is over.
func (s *Service) begin() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return errStopping
	}
	s.calls.Add(1)
	return nil
}

func (s *Service) end() { s.calls.Done() }

// stop refuses new calls and ends all streams.
func (s *Service) stop() {
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		close(s.stopping)
	}
	s.mu.Unlock()
	for _, sess := range s.all() {
		if st := sess.current(); st != nil {
			st.stop(errStopping)
		}
	}
}

// pollAnew makes all streams choose their queues again.
func (s *Service) pollAnew() {
	for _, sess := range s.all() {
		sess.pollAnew()
	}
}

func (s *Service) all() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*session, 0, len(s.sessions))
	for _, sess := range s.sessions {
		all = append(all, sess)
	}
	return all
}

// session finds what is known of a worker here, or begins it from the worker's lease.
func (s *Service) session(ctx context.Context, worker string) (*session, error) {
	if worker == "" {
		return nil, errNoWorker
	}
	s.mu.Lock()
	sess := s.sessions[worker]
	s.mu.Unlock()
	if sess != nil {
		return sess, nil
	}
	l, err := s.Leases.Look(ctx, worker)
	if err != nil {
		return nil, s.unavailable(ctx, "read a worker lease", err)
	}
	if l.Lost {
		return nil, leaseLost(worker)
	}
	return s.sessionOf(&l), nil
}

func (s *Service) sessionOf(l *lease.Lease) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	sess := s.sessions[l.Worker]
	if sess == nil {
		sess = newSession(l)
		sess.adopted = clock.Steady(s.Clock)
		sess.since, sess.until = sess.adopted, sess.adopted.Add(task.QuarantineMin)
		s.sessions[l.Worker] = sess
	}
	sess.renewed(l)
	return sess
}

// lose ends what is known of a worker whose lease has ended.
func (s *Service) lose(worker string) {
	s.mu.Lock()
	sess := s.sessions[worker]
	delete(s.sessions, worker)
	s.mu.Unlock()
	if sess == nil {
		return
	}
	s.Hooks.leaseLost(worker)
	if st := sess.lose(); st != nil {
		st.stop(leaseLost(worker))
	}
}

// forgetGone drops sessions without a stream whose lease ran out a while ago.
func (s *Service) forgetGone() {
	now := clock.Steady(s.Clock)
	s.mu.Lock()
	defer s.mu.Unlock()
	for worker, sess := range s.sessions {
		if sess.current() == nil && now > sess.end().Add(sess.lease) {
			delete(s.sessions, worker)
		}
	}
}

// Workers is how many worker processes have a stream here.
func (s *Service) Workers() int {
	n := 0
	for _, sess := range s.all() {
		if sess.current() != nil {
			n++
		}
	}
	return n
}

// policy is what governs a task; a task whose lambda is gone ends by the defaults.
func (s *Service) policy(t *task.Task) (task.Policy, *catalog.Entry) {
	if entry := s.Catalog.ByRef(t.Partition.Lambda); entry != nil {
		return entry.PolicyFor(t), entry
	}
	defaults := task.Lambda{}.WithDefaults()
	return defaults.PolicyFor(t), nil
}

// backoff is a wait that doubles up to a limit.
type backoff struct{ wait time.Duration }

const (
	backoffMin = 10 * time.Millisecond
	backoffMax = time.Second
)

func (b *backoff) reset() { b.wait = 0 }

// sleep waits; it returns false when ctx ended first.
func (b *backoff) sleep(ctx context.Context, c clock.Clock) bool {
	b.wait = min(max(2*b.wait, backoffMin), backoffMax)
	return clock.Sleep(ctx, c, b.wait) == nil
}

func isConflict(err error) (*task.Task, bool) {
	if seen, ok := errors.AsType[*store.ConflictError](err); ok {
		return seen.Task, true
	}
	return nil, errors.Is(err, store.ErrConflict)
}

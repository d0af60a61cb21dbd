// Package controller is the worker side of Kinesin: it keeps one process's lease, takes claimed tasks from
// the HSC, runs each in a slot at its time, and reports its outcome.
//
// It owns the lease of its process, the attempts that the process has, and the goroutines they run in. It
// calls the HSC through Backend and the user's code through Config.Execute. It never decides what happens to
// a task: it reports outcomes, and the HSC applies them.
//
// One rule comes before all others: when the lease may have run out, the handlers stop before anything else
// happens, because their tasks may start elsewhere. Each path that starts a task or sends a result checks the
// lease first (lease.go).
package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Controller runs the tasks of one process.
type Controller struct {
	cfg Config
}

// New checks a configuration. It starts nothing.
func New(cfg Config) (*Controller, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	return &Controller{cfg: cfg}, nil
}

// Run registers the process and works until ctx ends; then it drains and returns nil. It
// returns ErrLeaseLost when the lease was lost while handlers ran, ErrAbandoned when handlers did
// not return in time (in both cases the process should end), or the server's refusal to register.
func (c *Controller) Run(ctx context.Context) error {
	var lost *session // the session before, nil at first
	for losses := 1; ; losses++ {
		s, err := c.register(ctx, lost)
		if err != nil || s == nil {
			return err
		}
		lost = s
		err = s.run(ctx)
		if !errors.Is(err, errLostIdle) {
			return err
		}
		s.log(slog.LevelWarn, "lease lost while idle; registering again", slog.String("reason", s.lostWhy))
		// A server that takes each lease away at once must not be asked for new ones without a pause.
		if outageRetry.Sleep(ctx, c.cfg.Clock, losses) != nil {
			return nil //nolint:nilerr // asked to stop
		}
	}
}

// run works under the lease until ctx ends or the lease is lost.
func (s *session) run(ctx context.Context) error {
	s.log(slog.LevelInfo, "worker registered", slog.Duration("lease", s.length))
	s.reportLease(s.renewed)
	live, stop := context.WithCancel(s.ctx)
	var loops sync.WaitGroup
	loops.Go(func() { s.runTimers(live) })
	loops.Go(func() { s.sendHeartbeats(live) })
	loops.Go(func() { s.keepStream(live) })
	finish := func() {
		stop()
		loops.Wait()
	}
	defer finish()

	select {
	case <-s.gone:
		stop()
		return s.afterLoss()
	case <-ctx.Done():
	}
	abandoned, clean, ok := s.drain()
	finish()
	if !ok {
		return s.afterLoss()
	}
	if clean {
		s.leave()
	}
	if abandoned > 0 {
		return fmt.Errorf("%w: %d of them still run %v after they were told to stop", ErrAbandoned, abandoned, s.cfg.KillAfter)
	}
	return nil
}

// Errors with which Run ends, or the context of an attempt (context.Cause).
var (
	// ErrLeaseLost says that the lease ran out, or may have: the tasks may run elsewhere.
	ErrLeaseLost = errors.New("the worker's lease is lost")
	// ErrAbandoned says that handlers did not return in time; the process should end.
	ErrAbandoned = errors.New("handlers did not return")
	// ErrCancelled says that the task was cancelled.
	ErrCancelled = errors.New("the task was cancelled")
	// ErrFenced says that another attempt owns the task.
	ErrFenced = errors.New("another attempt owns the task")
	// ErrTimeout says that the attempt ran longer than its timeout.
	ErrTimeout = errors.New("the attempt timed out")
	// ErrDraining says that the worker is stopping and the grace is over.
	ErrDraining = errors.New("the worker is stopping")
	// ErrConfig refuses a configuration; the text says what is allowed.
	ErrConfig = errors.New("invalid worker configuration")
)

// Backend is the HSC as a worker process sees it. Its errors carry the reasons of package api.
type Backend interface {
	Register(ctx context.Context, r *kinesinv1.RegisterRequest) (*kinesinv1.RegisterResponse, error)
	Heartbeat(ctx context.Context, r *kinesinv1.HeartbeatRequest) (*kinesinv1.HeartbeatResponse, error)
	Leave(ctx context.Context, r *kinesinv1.LeaveRequest) (*kinesinv1.LeaveResponse, error)
	// Work opens a stream that lives until ctx ends or Close is called.
	Work(ctx context.Context) (Stream, error)
}

// Stream is an open Work call. One goroutine may send while another receives.
type Stream interface {
	// Send returns io.EOF when the other side has ended the stream; Receive then returns the reason.
	Send(r *kinesinv1.WorkRequest) error
	Receive() (*kinesinv1.WorkResponse, error)
	Close() error
}

// Limits and defaults of a configuration.
const (
	LeaseDefault     = 15 * time.Second
	LeaseMin         = 3 * time.Second
	LeaseMax         = time.Hour
	GraceDefault     = 25 * time.Second
	KillAfterDefault = 5 * time.Second
	LingerDefault    = 25 * time.Millisecond
	SlotsMax         = 10_000 // of all groups together
)

// Group is a pool of slots that run tasks of any of its lambdas.
type Group struct {
	Lambdas []string
	Slots   int
}

// Config configures a controller. A zero field has the default in its comment.
type Config struct {
	Backend Backend // required
	// Execute runs one attempt; it may be called from many goroutines. Required.
	Execute func(ctx context.Context, w *kinesinv1.Claimed) Outcome
	Groups  []Group // required; a lambda is in one group only

	Name    string // for people: host and process
	Version string // of the program; empty: not said
	// Process says where this process runs, so that a server on the same machine sees when it has ended. It
	// may be nil.
	Process *kinesinv1.Process
	Lease   time.Duration // LeaseDefault; LeaseMin to LeaseMax

	// Grace is how long handlers may go on when Run is asked to stop, before their
	// contexts end: GraceDefault; negative for none. KillAfter is how long they then have to return:
	// KillAfterDefault; negative for none.
	Grace     time.Duration
	KillAfter time.Duration

	// OwnTimeouts leaves it to Execute to end an attempt at its timeout.
	OwnTimeouts bool

	// Linger is the least time between two messages with few results: LingerDefault; negative for none. Each
	// message costs the server a wake-up, a commit and a sync.
	Linger time.Duration

	// Exit ends the process when the lease is lost and handlers do not obey. nil: Run
	// returns ErrLeaseLost and leaves them running.
	Exit func(code int)

	Clock  clock.Clock  // clock.Real()
	Logger *slog.Logger // discards
	Hooks  Hooks
}

// Hooks are called when something happens, from many goroutines; any may be nil.
type Hooks struct {
	Started func(w *kinesinv1.Claimed, late time.Duration)
	Ended   func(w *kinesinv1.Claimed, o task.Outcome, took time.Duration)
	Fenced  func(w *kinesinv1.Claimed) // an outcome was refused or an attempt stopped: another one owns the task
	// LeaseHeld is called at registration and after each accepted heartbeat, with how long the lease
	// certainly holds.
	LeaseHeld func(worker string, left time.Duration)
	LeaseLost func(running int)
	Broken    func(err error) // the Work stream broke
}

func (h Hooks) withDefaults() Hooks {
	if h.Started == nil {
		h.Started = func(*kinesinv1.Claimed, time.Duration) {}
	}
	if h.Ended == nil {
		h.Ended = func(*kinesinv1.Claimed, task.Outcome, time.Duration) {}
	}
	if h.Fenced == nil {
		h.Fenced = func(*kinesinv1.Claimed) {}
	}
	if h.LeaseHeld == nil {
		h.LeaseHeld = func(string, time.Duration) {}
	}
	if h.LeaseLost == nil {
		h.LeaseLost = func(int) {}
	}
	if h.Broken == nil {
		h.Broken = func(error) {}
	}
	return h
}

// Outcome is how an attempt ended.
type Outcome struct {
	Kind  task.Outcome  // OutcomeSuccess, OutcomeRetriable, OutcomeFatal, OutcomeSnoozed, OutcomeReleased or OutcomeCancelled
	Error string        // for people; task.ErrorText of it is kept
	Delay time.Duration // before a snoozed task is due again
	// Result is kept with a task that ends in success; nil for none. With more than task.ResultBytesMax bytes
	// the attempt is a retriable failure that says so.
	Result []byte
	// Add is what else follows a task that ends in success; nil for nothing.
	Add *kinesinv1.Followups
}

func (c Config) withDefaults() Config {
	c.Lease = cmp.Or(c.Lease, LeaseDefault)
	c.Grace = max(cmp.Or(c.Grace, GraceDefault), 0)
	c.KillAfter = max(cmp.Or(c.KillAfter, KillAfterDefault), 0)
	c.Linger = max(cmp.Or(c.Linger, LingerDefault), 0)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	c.Hooks = c.Hooks.withDefaults()
	return c
}

func (c *Config) validate() error {
	var errs []error
	if c.Backend == nil || c.Execute == nil {
		errs = append(errs, fmt.Errorf("%w: Backend and Execute are required", ErrConfig))
	}
	if c.Lease < LeaseMin || c.Lease > LeaseMax {
		errs = append(errs, fmt.Errorf("%w: lease %v: want %v to %v", ErrConfig, c.Lease, LeaseMin, LeaseMax))
	}
	return errors.Join(append(errs, c.validateGroups()...)...)
}

func (c *Config) validateGroups() []error {
	if len(c.Groups) == 0 {
		return []error{fmt.Errorf("%w: no lambda to work for", ErrConfig)}
	}
	var errs []error
	seen, slots := map[string]bool{}, 0
	for _, g := range c.Groups {
		slots += g.Slots
		if g.Slots < 1 || len(g.Lambdas) == 0 {
			errs = append(errs, fmt.Errorf("%w: group of %v with %d slots: want a lambda and a slot at least", ErrConfig, g.Lambdas, g.Slots))
		}
		for _, name := range g.Lambdas {
			if err := task.CheckName("lambda", name); err != nil {
				errs = append(errs, fmt.Errorf("%w: %w", ErrConfig, err))
			}
			if seen[name] {
				errs = append(errs, fmt.Errorf("%w: lambda %q is in two groups", ErrConfig, name))
			}
			seen[name] = true
		}
	}
	if slots > SlotsMax {
		errs = append(errs, fmt.Errorf("%w: %d slots: want at most %d together", ErrConfig, slots, SlotsMax))
	}
	return errs
}

package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/internal/process"
	"github.com/kinesin-io/kinesin/task"
)

// SlotsDefault is how many tasks a worker runs at a time when it is not told.
const SlotsDefault = 100

// Worker runs tasks in this process. Register its handlers, then call Run once.
type Worker struct {
	client     *Client
	cfg        workerConfig
	shared     []string // lambdas without slots of their own
	groups     []controller.Group
	handlers   map[string]Handler
	middleware []Middleware
	errs       []error
}

type workerConfig struct {
	slots     int
	lease     time.Duration
	grace     time.Duration
	killAfter time.Duration
	name      string
	exit      func(code int)
	hooks     controller.Hooks
	use       []Middleware
}

// WorkerOption changes how a worker runs.
type WorkerOption func(*workerConfig)

// Slots sets how many tasks run at a time, of all lambdas together that have no
// Concurrency of their own; SlotsDefault otherwise.
func Slots(n int) WorkerOption { return func(c *workerConfig) { c.slots = n } }

// Lease sets after how long without a heartbeat the tasks of this process start elsewhere: 15 s otherwise, 3
// s to 1 h. A short one finds a lost process sooner, a long one outlasts longer outages of the server.
func Lease(d time.Duration) WorkerOption { return func(c *workerConfig) { c.lease = d } }

// Grace sets how long handlers may go on once Run is asked to stop; then their
// contexts end with ErrDraining: 25 s otherwise, zero for at once.
func Grace(d time.Duration) WorkerOption { return func(c *workerConfig) { c.grace = orNone(d) } }

// KillAfter sets how long handlers then have to return, before Run gives their tasks
// back and returns ErrAbandoned: 5 s otherwise, zero for no time.
func KillAfter(d time.Duration) WorkerOption {
	return func(c *workerConfig) { c.killAfter = orNone(d) }
}

// orNone tells the controller "none" where it would take zero for its default.
func orNone(d time.Duration) time.Duration {
	if d <= 0 {
		return -1
	}
	return d
}

// Name sets what the worker is called in attempts and logs; host name and process id otherwise.
func Name(name string) WorkerOption { return func(c *workerConfig) { c.name = name } }

// Use wraps every handler, the first middleware outermost.
func Use(m ...Middleware) WorkerOption {
	return func(c *workerConfig) { c.use = append(c.use, m...) }
}

// Hooks are what a worker can tell of itself.
type Hooks = controller.Hooks

// Work is a claimed task, as hooks get it.
type Work = controller.Work

// Outcome is how an attempt ended; its String is the form in the records of attempts.
type Outcome = task.Outcome

// Observe has the hooks called as things happen, for metrics.
func Observe(h Hooks) WorkerOption { return func(c *workerConfig) { c.hooks = h } }

// ExitWith sets what ends the process when its lease is lost and handlers ignore the
// end of their contexts: their tasks start elsewhere, so they must not go on. os.Exit otherwise.
func ExitWith(exit func(code int)) WorkerOption { return func(c *workerConfig) { c.exit = exit } }

// NewWorker returns a worker that takes its tasks from the client's server.
func NewWorker(client *Client, opts ...WorkerOption) *Worker {
	cfg := workerConfig{exit: os.Exit} //nolint:forbidigo // only the end of the process surely ends its handlers
	for _, o := range opts {
		o(&cfg)
	}
	return &Worker{client: client, cfg: cfg, handlers: map[string]Handler{}, middleware: cfg.use}
}

// HandleOption changes how one lambda's tasks are run.
type HandleOption func(*handleConfig)

type handleConfig struct{ concurrency int }

// Concurrency gives a lambda slots of its own: n of its tasks run at a time, whatever the other lambdas do.
func Concurrency(n int) HandleOption { return func(c *handleConfig) { c.concurrency = n } }

// Register has tasks of a lambda run by a handler of raw payloads. Run returns registration errors.
// Lambda.Handle is the typed form.
func (w *Worker) Register(lambda string, h Handler, opts ...HandleOption) {
	var cfg handleConfig
	for _, o := range opts {
		o(&cfg)
	}
	switch {
	case h == nil:
		w.errs = append(w.errs, fmt.Errorf("%w handler of lambda %q: it is nil", ErrInvalid, lambda))
		return
	case w.handlers[lambda] != nil:
		w.errs = append(w.errs, fmt.Errorf("%w handler of lambda %q: it has one already", ErrInvalid, lambda))
		return
	case cfg.concurrency < 0:
		w.errs = append(w.errs, fmt.Errorf("%w concurrency %d of lambda %q: want 1 or more", ErrInvalid, cfg.concurrency, lambda))
		return
	case cfg.concurrency > 0:
		w.groups = append(w.groups, controller.Group{Lambdas: []string{lambda}, Slots: cfg.concurrency})
	default:
		w.shared = append(w.shared, lambda)
	}
	for _, m := range slices.Backward(w.middleware) {
		h = m(h)
	}
	w.handlers[lambda] = h
}

// Run takes and runs tasks until ctx ends; then it drains and returns nil. It returns ErrLeaseLost when the
// worker lost touch with the server while handlers ran, and ErrAbandoned when handlers did not return in
// time; in both cases the process should end and be started again. A refusal of the server, such as
// ErrUnknownLambda, is returned at once.
func (w *Worker) Run(ctx context.Context) error {
	if len(w.errs) > 0 {
		return errors.Join(w.errs...)
	}
	groups := w.groups
	if len(w.shared) > 0 {
		groups = append(slices.Clip(groups), controller.Group{Lambdas: w.shared, Slots: cmp.Or(w.cfg.slots, SlotsDefault)})
	}
	cfg := controller.Config{
		Backend: w.client.backend.Workers, Execute: w.execute, Groups: groups, Name: cmp.Or(w.cfg.name, processName()),
		Process: thisProcess(), Lease: w.cfg.lease, Grace: w.cfg.grace, KillAfter: w.cfg.killAfter, Exit: w.cfg.exit,
		Clock: w.client.cfg.clock, Logger: w.client.cfg.log, Hooks: w.cfg.hooks,
	}
	if change := w.client.cfg.controllers; change != nil {
		change(ctx, &cfg)
	}
	c, err := controller.New(cfg)
	if err != nil {
		return fmt.Errorf("%w worker: %w", ErrInvalid, err)
	}
	return c.Run(ctx)
}

// thisProcess says which process this is, where the system tells.
func thisProcess() *kinesinv1.Process {
	id, err := process.Self()
	if err != nil {
		return nil
	}
	return &kinesinv1.Process{Place: id.Place[:], Pid: int32(id.PID), StartedTicks: id.StartedTicks}
}

func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/internal/process"
	"github.com/kinesin-io/kinesin/task"
)

// Worker runs tasks in this process. Register handlers, then call Run once.
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
	version   *string // nil: programVersion
	exit      func(code int)
	hooks     Hooks
	use       []Middleware
}

// WorkerOption changes how a worker runs.
type WorkerOption func(*workerConfig)

// Slots sets how many tasks run at a time, of all lambdas together that have no Concurrency of their own. The
// default is SlotsDefault.
func Slots(n int) WorkerOption { return func(c *workerConfig) { c.slots = n } }

// Lease sets after how long without a heartbeat the tasks of this process start elsewhere: 3 s to 1 h, and 15
// s by default. A short lease detects a lost process sooner, a long one survives longer outages of the
// server.
func Lease(d time.Duration) WorkerOption { return func(c *workerConfig) { c.lease = d } }

// Grace sets how long handlers may continue when Run's context has ended, before their own contexts end with
// ErrDraining. The default is 25 s; zero means at once.
func Grace(d time.Duration) WorkerOption { return func(c *workerConfig) { c.grace = orNone(d) } }

// KillAfter sets how long handlers then have to return, before Run gives their tasks back and returns
// ErrAbandoned. The default is 5 s; zero means no time.
func KillAfter(d time.Duration) WorkerOption {
	return func(c *workerConfig) { c.killAfter = orNone(d) }
}

// orNone returns the controller's value for "none", to which zero means the default.
func orNone(d time.Duration) time.Duration {
	if d <= 0 {
		return -1
	}
	return d
}

// Name sets the name of the worker in attempts and logs. The default is made of host name and process id.
func Name(name string) WorkerOption { return func(c *workerConfig) { c.name = name } }

// Version sets the version of the worker's program in attempts, by which the console groups what died;
// empty: none. The default is that of the program's module, or else its revision, where the build noted it.
func Version(version string) WorkerOption {
	return func(c *workerConfig) { c.version = &version }
}

// Use wraps every handler, the first middleware outermost.
func Use(m ...Middleware) WorkerOption {
	return func(c *workerConfig) { c.use = append(c.use, m...) }
}

// Observe sets hooks that the worker calls, for metrics.
func Observe(h Hooks) WorkerOption { return func(c *workerConfig) { c.hooks = h } }

// ExitWith sets the function that ends the process when the lease is lost and handlers do not return: their
// tasks start elsewhere, so they must not go on. The default is os.Exit.
func ExitWith(exit func(code int)) WorkerOption { return func(c *workerConfig) { c.exit = exit } }

// NewWorker returns a worker that takes its tasks from the client's server.
func NewWorker(client *Client, opts ...WorkerOption) *Worker {
	cfg := workerConfig{exit: os.Exit} //nolint:forbidigo // nothing else is sure to end the handlers
	for _, o := range opts {
		o(&cfg)
	}
	return &Worker{client: client, cfg: cfg, handlers: map[string]Handler{}, middleware: cfg.use}
}

// HandleOption changes how one lambda's tasks are run.
type HandleOption func(*handleConfig)

type handleConfig struct{ concurrency int }

// Concurrency gives a lambda n slots of its own, which tasks of other lambdas cannot take.
func Concurrency(n int) HandleOption { return func(c *handleConfig) { c.concurrency = n } }

// Register sets the handler of a lambda's tasks, which gets raw payloads; Lambda.Handle is the typed form.
// Run returns registration errors.
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

// Run runs tasks until ctx ends; then it drains and returns nil. It returns ErrLeaseLost when the worker lost
// its lease while handlers ran, and ErrAbandoned when handlers did not return in time; in both cases the
// process should end and be restarted. It returns a refusal of the server, such as ErrPermissionDenied, at
// once. It waits for a server that does not answer, and until one of its lambdas exists; it takes on the
// others when they are created, and logs which are missing.
func (w *Worker) Run(ctx context.Context) error {
	if len(w.errs) > 0 {
		return errors.Join(w.errs...)
	}
	groups := w.groups
	if len(w.shared) > 0 {
		groups = append(slices.Clip(groups), controller.Group{Lambdas: w.shared, Slots: cmp.Or(w.cfg.slots, SlotsDefault)})
	}
	cfg := controller.Config{
		Backend: w.client.backend.workers, Execute: w.execute, Groups: groups, Name: cmp.Or(w.cfg.name, processName()), Version: w.version(),
		Process: thisProcess(), Lease: w.cfg.lease, Grace: w.cfg.grace, KillAfter: w.cfg.killAfter, Exit: w.cfg.exit,
		Clock: w.client.cfg.Clock, Logger: w.client.cfg.Log, Hooks: w.cfg.hooks.forController(),
	}
	if change := w.client.cfg.Controllers; change != nil {
		change(ctx, &cfg)
	}
	c, err := controller.New(cfg)
	if err != nil {
		return fmt.Errorf("%w worker: %w", ErrInvalid, err)
	}
	return c.Run(ctx)
}

// thisProcess identifies this process to a server on the same machine; nil where the system does not support
// that.
func thisProcess() *kinesinv1.Process {
	id, err := process.Self()
	if err != nil {
		return nil
	}
	return &kinesinv1.Process{Place: id.Place[:], Pid: int32(id.PID), StartedTicks: id.StartedTicks}
}

func (w *Worker) version() string {
	if v := w.cfg.version; v != nil {
		return *v
	}
	return programVersion()
}

// programVersion returns the version of the program as its build noted it; empty: it did not.
func programVersion() string {
	info, known := debug.ReadBuildInfo()
	if !known {
		return ""
	}
	if v := info.Main.Version; v != "(devel)" && len(v) <= task.WorkerVersionBytesMax {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(len(s.Value), revisionChars)]
		}
	}
	return ""
}

// revisionChars is how much of a revision names it.
const revisionChars = 12

func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return fmt.Sprintf("%s-%d", host, os.Getpid())
}

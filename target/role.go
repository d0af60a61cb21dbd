package target

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/internal/inproc"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// lambdasPerWorker is how many lambdas a worker serves, each with slots of its own; controller.SlotsMax bounds
// their slots together.
const lambdasPerWorker = 64

// stopMax bounds how long calls may take to return once they are ended.
const stopMax = 5 * time.Second

// restart is between two runs of a worker that failed.
var restart = backoff.Policy{Min: time.Second, Max: 30 * time.Second} //nolint:gochecknoglobals // as a constant

// Config configures a Role. All but Open is required.
type Config struct {
	// Lambdas returns the lambdas, and a channel that is closed when they have changed.
	Lambdas func() ([]task.Lambda, <-chan struct{})
	// Server serves workers, with the identity of the server.
	Server http.Handler
	// Runners make the handler of a target, by its kind. Targets of other kinds are not called.
	Runners map[string]func(task.Target) (sdk.Handler, error)
	Name    string // of the workers
	Version string // of this program, for attempts
	Log     *slog.Logger
	// DrainMax is how long calls may go on when the role is to stop. Then they end, and their tasks go back.
	DrainMax time.Duration
	// Token returns the token with which the receiver of a call may report how the attempt of a worker ended.
	Token func(ctx context.Context, worker, task string, attempt int) (string, error)
	// Open is called with 1 when an attempt begins, and with -1 when it ends. nil: not called.
	Open func(change int)
}

// Role calls targets.
type Role struct {
	Config

	client *sdk.Client
	cut    context.Context //nolint:containedctx // ends all calls
	crews  []*crew

	mu      sync.Mutex // guards the rest
	runners map[string]*runner
	waits   map[callbackKey]chan controller.Outcome // of attempts that may be reported by a callback
}

// runner is the handler of a target as a lambda has it now.
type runner struct {
	target task.Target
	run    sdk.Handler
}

// crew is a worker, and the lambdas that it serves with their slots.
type crew struct {
	slots map[string]int
	stop  context.CancelFunc
}

// New returns a role. Run starts it.
func New(c Config) *Role {
	if c.Open == nil {
		c.Open = func(int) {}
	}
	return &Role{Config: c, runners: map[string]*runner{}, waits: map[callbackKey]chan controller.Outcome{}}
}

// Run calls the targets of lambdas until ctx ends. Then it takes no more tasks, and waits for the calls that
// are under way for DrainMax.
func (r *Role) Run(ctx context.Context) error {
	transport := inproc.New(r.Server)
	defer transport.Close()
	client, err := sdk.NewClient("http://server", sdk.WithHTTPClient(&http.Client{Transport: transport}), sdk.WithLogger(r.Log), TimesCalls())
	if err != nil {
		return fmt.Errorf("targets: %w", err)
	}
	r.client = client
	var cutOff context.CancelFunc
	r.cut, cutOff = context.WithCancel(context.WithoutCancel(ctx))
	defer cutOff()
	var working sync.WaitGroup
	for ctx.Err() == nil {
		lambdas, changed := r.Lambdas()
		r.staff(ctx, &working, lambdas)
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	timer := time.AfterFunc(r.DrainMax, cutOff)
	defer timer.Stop()
	working.Wait()
	return nil
}

// staff gives each lambda with a target the slots that it is to have, in a worker. A worker of which a lambda
// has changed its slots, or its target is gone, drains; others take on what it still serves.
func (r *Role) staff(ctx context.Context, working *sync.WaitGroup, lambdas []task.Lambda) {
	want := map[string]int{}
	for i := range lambdas {
		if l := &lambdas[i]; l.Target != nil && r.set(ctx, l) {
			want[l.Name] = l.Target.SlotsOrDefault()
		}
	}
	r.forget(want)
	r.crews = slices.DeleteFunc(r.crews, func(c *crew) bool {
		for name, slots := range c.slots {
			if want[name] != slots {
				c.stop()
				return true
			}
		}
		return false
	})
	for _, c := range r.crews {
		for name := range c.slots {
			delete(want, name)
		}
	}
	for i := range lambdas { // in their order
		if slots, wanted := want[lambdas[i].Name]; wanted {
			delete(want, lambdas[i].Name)
			r.place(lambdas[i].Name, slots)
		}
	}
	for _, c := range r.crews {
		if c.stop == nil {
			of, stop := context.WithCancel(ctx)
			c.stop = stop
			working.Go(func() { r.work(of, c.slots) })
		}
	}
}

// place gives a lambda to a crew that has not begun, or to a new one.
func (r *Role) place(name string, slots int) {
	for _, c := range r.crews {
		total := slots
		for _, n := range c.slots {
			total += n
		}
		if c.stop == nil && len(c.slots) < lambdasPerWorker && total <= controller.SlotsMax {
			c.slots[name] = slots
			return
		}
	}
	r.crews = append(r.crews, &crew{slots: map[string]int{name: slots}})
}

// set makes the runner of a lambda, if its target is a new one, and reports whether there is one.
func (r *Role) set(ctx context.Context, l *task.Lambda) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if have := r.runners[l.Name]; have != nil && reflect.DeepEqual(have.target, *l.Target) {
		return have.run != nil
	}
	next := &runner{target: *l.Target}
	r.runners[l.Name] = next
	runnerOf := r.Runners[l.Target.Kind()]
	if runnerOf == nil {
		r.Log.WarnContext(ctx, "a target is of a kind that this server does not call", slog.String("lambda", l.Name), slog.String("kind", l.Target.Kind()))
		return false
	}
	var err error
	if next.run, err = runnerOf(*l.Target); err != nil {
		r.Log.ErrorContext(ctx, "a target is not called", slog.String("lambda", l.Name), slog.Any("error", err))
		next.run = nil
	}
	return next.run != nil
}

// forget drops the runners of lambdas without a target.
func (r *Role) forget(want map[string]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, have := range r.runners {
		if _, wanted := want[name]; !wanted && have.run != nil {
			delete(r.runners, name)
		}
	}
}

// work runs a worker until ctx ends, and again after a failure, such as a lost lease.
func (r *Role) work(ctx context.Context, slots map[string]int) {
	var worker atomic.Pointer[string] // its newest lease
	run := func(ctx context.Context, t *sdk.Task[[]byte]) error { return r.run(ctx, t, *worker.Load()) }
	held := sdk.Hooks{LeaseHeld: func(id string, _ time.Duration) { worker.Store(&id) }}
	for tries := 1; ctx.Err() == nil; tries++ {
		began := clock.Mono(clock.Real())
		w := sdk.NewWorker(r.client, sdk.Name(r.Name), sdk.Version(r.Version), sdk.Observe(held),
			sdk.ExitWith(func(int) {}), // the process has more to do; calls end with their contexts
			sdk.Grace(task.TimeoutMax), sdk.KillAfter(stopMax))
		for name, n := range slots {
			w.Register(name, run, sdk.Concurrency(n))
		}
		err := w.Run(ctx)
		if ctx.Err() != nil {
			return
		}
		r.Log.WarnContext(ctx, "a worker of targets ended; it begins again", slog.Any("error", err))
		if clock.Mono(clock.Real())-began > restart.Max {
			tries = 1
		}
		_ = restart.Sleep(ctx, clock.Real(), tries) // the loop sees that ctx ended
	}
}

// run calls the target of a task's lambda.
func (r *Role) run(ctx context.Context, t *sdk.Task[[]byte], worker string) error {
	r.Open(1)
	defer r.Open(-1)
	r.mu.Lock()
	of := r.runners[t.Lambda]
	r.mu.Unlock()
	if of == nil || of.run == nil {
		return released("the lambda has no target any more")
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(r.cut, end)()
	err := of.run(context.WithValue(ctx, callbackContext{}, &callback{role: r, worker: worker}), t)
	if err != nil && r.cut.Err() != nil {
		return released("the server is stopping")
	}
	return err
}

// released is the error by which a task goes back to its queue.
func released(why string) error {
	return &sdkconfig.OutcomeError{Outcome: controller.Outcome{Kind: task.OutcomeReleased, Error: why}}
}

// Package load is the load generator of kinesin-bench: it schedules tasks on a server, runs them in a
// worker in its own process, and counts exactly, by the number in each task's payload. It starts no server
// and judges no figure.
package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// Kind is a shape of load.
type Kind string

// The kinds of load.
const (
	Insert    Kind = "insert"    // tasks far in the future, to measure accepting them
	Wall      Kind = "wall"      // all tasks due at one instant
	Steady    Kind = "steady"    // tasks due at random milliseconds, at a mean rate
	Sets      Kind = "sets"      // tasks far in the future, which are then cancelled and redriven by jobs
	Crons     Kind = "crons"     // a task of each of many crons, which fire at one instant
	Immediate Kind = "immediate" // one task after the other: schedule it and wait for its start
	Lambdas   Kind = "lambdas"   // Wall over many lambdas, which are created for it
	Keys      Kind = "keys"      // Wall of tasks with limit keys
	Quota     Kind = "quota"     // Wall of a lambda with a quota of concurrency
	Procs     Kind = "procs"     // Wall before workers of one slot each, in several processes
	Change    Kind = "change"    // tasks far in the future, which are then changed by their ids
	Count     Kind = "count"     // tasks far in the future, which are then counted and listed
	Push      Kind = "push"      // Wall of a lambda whose target is a receiver in this process
)

// Limits of a run.
const (
	TasksMax      = 10_000_000
	SlotsMax      = 10_000
	LambdasMax    = 10_000
	KeysMax       = 10_000_000
	ProcessesMax  = 1000
	othersRateMax = 500 // fewer than milliseconds, by which their tasks are told apart
	callersMax    = 4   // calls in flight while inserting
	chainsMax     = 1_000_000
	groupsMax     = 10_000
	rateMax       = 100_000
	paceMax       = 1_000_000
	durationMax   = 24 * time.Hour
	PagesMax      = 2000 // as many as a server streams to

	insertAhead  = 24 * time.Hour // when the tasks of Insert are due
	aheadBase    = 4 * time.Second
	aheadPerTask = 25 * time.Microsecond // 40,000 inserts a second is slow

	// A task that does not start within this time after its due time is lost.
	patienceBase    = time.Minute
	patiencePerTask = time.Millisecond
	// Duplicates may start a little after the last task.
	settleFor = time.Second
)

// Progress is told how far a measurement is. nil is fine.
type Progress func(text string)

func (p Progress) note(format string, args ...any) {
	if p != nil {
		p(fmt.Sprintf(format, args...))
	}
}

// Config configures a run.
type Config struct {
	*Server

	Kind Kind
	// Tasks is the number of tasks; of Steady 0: those of Rate and Duration.
	Tasks        int
	Rate         float64       // tasks per second, of Steady, and of Keys unless all are due at one instant: 0
	StartRate    float64       // of Quota: tasks per second that start; 0: no bound
	Duration     time.Duration // of Steady
	Slots        int           // of the worker
	PayloadBytes int           // at least 8
	Batch        int           // tasks per call when inserting
	Ahead        time.Duration // from the start of the insertion to the first due time; 0: enough for a slow insertion
	IdleMax      time.Duration // of Immediate: longest random pause before each task
	Spread       bool          // of Crons: they fire within a minute, each in a second that H draws
	Shards       int           // of the lambda; 0: the server's default
	OthersRate   float64       // of Sets: tasks per second of another lambda; 0: none
	// LimitKeys is how many limit keys the tasks have in turn, of each of which Concurrency run at once; 0:
	// they have none.
	LimitKeys int
	// Concurrency is how many tasks of a limit key or, of Quota, of the lambda run at once.
	Concurrency int
	Lambdas     int // of Lambdas: how many, of which the tasks are in turn
	Processes   int // of Procs: over which the workers are spread, as many as there are workers at most
	Hosts       int // of Push: how many are called, each for the tasks of one limit key if there are several
	// StartProcess starts a process of Procs, with workers of one slot each that call started for each task.
	// stop ends the process, and returns the CPU time that it used.
	StartProcess func(ctx context.Context, lambda string, workers int, started func(payload []byte, at time.Time)) (stop func() (cpu time.Duration, err error), err error)
	// Lambda names the lambda that is created for the run, and deleted afterwards with all its tasks unless
	// Keep is set. Lambdas of Lambdas have a number after the name.
	Lambda   string
	Keep     bool
	Pages    int // of the console that are open meanwhile, of Steady
	Progress Progress
}

// ErrConfig is returned for an invalid Config; the text says what is allowed.
var ErrConfig = errors.New("cannot be run")

// Validate sets Tasks or Duration of a Steady run, and refuses invalid values.
func (c *Config) Validate() error {
	switch {
	case c.Kind != Steady && (c.Kind != Keys || c.Rate == 0):
	case c.Tasks == 0:
		c.Tasks = int(c.Rate * c.Duration.Seconds())
	default:
		c.Duration = time.Duration(float64(c.Tasks) / c.Rate * float64(time.Second))
	}
	of := func(kinds ...Kind) int { // the lowest number that a kind may have
		if slices.Contains(kinds, c.Kind) {
			return 1
		}
		return 0
	}
	return errors.Join(
		within("tasks", c.Tasks, 1, TasksMax),
		within("tasks per second", c.Rate, 0, rateMax),
		within("workers", c.Slots, 1, SlotsMax),
		within("payload bytes", c.PayloadBytes, indexBytes, 1<<20),
		within("batch", c.Batch, 1, 10_000),
		within("tasks per second of the other lambda", c.OthersRate, 0, othersRateMax),
		within("pages", c.Pages, 0, PagesMax),
		within("lambdas", c.Lambdas, of(Lambdas), LambdasMax),
		within("keys", c.LimitKeys, of(Keys), KeysMax),
		within("concurrency", c.Concurrency, of(Keys, Push), SlotsMax),
		within("hosts", c.Hosts, of(Push), HostsMax),
		within("starts per second", c.StartRate, 0, rateMax),
		within("processes", c.Processes, of(Procs), ProcessesMax),
		within("time ahead", c.Ahead, 0, durationMax),
		within("idle time", c.IdleMax, 0, durationMax),
	)
}

// within returns an error unless a value is between bounds.
func within[T int | float64 | time.Duration](what string, have, lowest, highest T) error {
	if have >= lowest && have <= highest { // false for no number
		return nil
	}
	return fmt.Errorf("%w: %s: have %v, want %v to %v", ErrConfig, what, have, lowest, highest)
}

// Run carries out a run. The report is valid only without an error.
func Run(ctx context.Context, c Config) (Report, error) {
	if err := c.Validate(); err != nil {
		return Report{}, err
	}
	if c.Kind == Push && c.Hosts > 1 {
		c.LimitKeys = c.Hosts
	}
	r := &run{Config: c}
	r.seen = newRecord(r.counted())
	if c.Kind == Push {
		var err error
		if r.receiver, err = r.receive(ctx); err != nil {
			return Report{}, err
		}
	}
	if err := r.createLambdas(ctx); err != nil {
		return Report{}, err
	}
	report, err := r.measure(ctx)
	if err == nil {
		report.RSS, err = c.rss(ctx)
	}
	return report, errors.Join(err, r.cleanUp(ctx))
}

// run is a run in progress.
type run struct {
	Config

	seen     *record
	receiver *receiver // of Push
	open     *pages
	ids      []sdk.ID // of Change
	created  phase    // of the lambdas
	inserted phase
	// insertCalls is how long each call of the insertion took, in microseconds.
	insertCalls []int64
	accepted    int
}

// createLambdas creates the lambdas of a run. The creation of all but the first is measured.
func (r *run) createLambdas(ctx context.Context) (err error) {
	create := func(ctx context.Context, i int) error {
		l := admin.Lambda{Name: r.lambdaOf(i), Shards: r.Shards, Priorities: []string{"normal"}}
		if r.LimitKeys > 0 {
			l.LimitKeyConcurrency = r.Concurrency
		}
		if r.Kind == Push {
			r.pushTo(&l)
		}
		_, _, err := admin.New(r.Client).Lambdas.Create(ctx, l)
		return err
	}
	if err := create(ctx, 0); err != nil {
		return err
	}
	if r.Kind == Quota {
		_, err := admin.New(r.Client).Quotas.Set(ctx, admin.Quota{Lambda: r.Lambda, Concurrency: r.Concurrency, Rate: r.StartRate}, admin.QuotaSetOptions{})
		return err
	}
	if r.lambdas() == 1 {
		return nil
	}
	if r.created, err = r.begin(ctx); err != nil {
		return err
	}
	r.created.from = time.Now()
	calls, callsCtx := errgroup.WithContext(ctx)
	calls.SetLimit(callersMax)
	for i := 1; i < r.lambdas(); i++ {
		calls.Go(func() error { return create(callsCtx, i) })
	}
	if err := calls.Wait(); err != nil {
		return err
	}
	r.created.to = time.Now()
	r.created, err = r.finish(ctx, r.created)
	return err
}

func (r *run) lambdas() int { return max(1, r.Lambdas) }

// lambdaOf returns the lambda of the task with a number.
func (r *run) lambdaOf(i int) string {
	if r.Lambdas == 0 {
		return r.Lambda
	}
	return fmt.Sprint(r.Lambda, "-", i%r.Lambdas)
}

// measure runs the load, with a worker if it needs one.
func (r *run) measure(ctx context.Context) (Report, error) {
	switch r.Kind {
	case Insert:
		return r.insertOnly(ctx)
	case Sets:
		return r.sets(ctx)
	case Change:
		return r.change(ctx)
	case Count:
		return r.count(ctx)
	case Wall, Steady, Immediate, Crons, Lambdas, Keys, Quota, Procs, Push:
	}
	keys := r.wall
	if r.Rate > 0 {
		keys = r.steady
	}
	load := map[Kind]func(context.Context) (phase, error){
		Wall: r.wall, Lambdas: r.wall, Keys: keys, Quota: r.wall, Procs: r.wall, Push: r.wall, Steady: r.steady, Immediate: r.immediate, Crons: r.crons,
	}[r.Kind]
	if load == nil {
		return Report{}, fmt.Errorf("%w: unknown kind %q", ErrConfig, r.Kind)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop, err := r.startWorkers(ctx, cancel)
	var measured phase
	if err == nil {
		err = r.warmUp(ctx)
	}
	if err == nil && r.Pages > 0 {
		if r.open, err = r.openPages(ctx); err == nil {
			defer r.open.close()
		}
	}
	if err == nil {
		measured, err = load(ctx)
	}
	used, workerErr := stop()
	measured.client += used
	if err == nil {
		err = workerErr
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if n := r.seen.strange.Load(); err == nil && n > 0 {
		err = fmt.Errorf("%d starts of tasks that were never scheduled", n)
	}
	return r.report(measured), err
}

// startWorkers starts the workers. If one of them ends by itself, it calls fail. stop ends all of them, and returns
// the CPU time that they used in processes of their own.
func (r *run) startWorkers(ctx context.Context, fail context.CancelCauseFunc) (stop func() (time.Duration, error), err error) {
	switch r.Kind {
	case Procs:
		return r.startProcesses(ctx)
	case Push:
		return func() (time.Duration, error) { return 0, r.receiver.stop() }, nil
	default:
	}
	ctx, cancel := context.WithCancel(ctx)
	var running errgroup.Group
	for from := 0; from < r.lambdas(); from += api.LambdasMax {
		some := min(api.LambdasMax, r.lambdas()-from)
		w := sdk.NewWorker(r.Client, sdk.Slots(max(1, r.Slots*some/r.lambdas())), sdk.Grace(time.Second))
		for i := range some {
			sdk.NewLambda[[]byte](r.lambdaOf(from+i)).Handle(w, func(_ context.Context, t *sdk.Task[[]byte]) error {
				r.seen.start(t.Args, time.Now())
				return nil
			})
		}
		running.Go(func() error {
			err := w.Run(ctx)
			if ctx.Err() == nil {
				fail(fmt.Errorf("the worker ended: %w", errors.Join(err, errors.New("before the load did"))))
			}
			return err
		})
	}
	return func() (time.Duration, error) {
		cancel()
		return 0, running.Wait()
	}, nil
}

// startProcesses starts the processes of Procs, with as many workers together as Slots says.
func (r *run) startProcesses(ctx context.Context) (stop func() (time.Duration, error), err error) {
	var stops []func() (time.Duration, error)
	stop = func() (used time.Duration, err error) {
		for _, one := range stops {
			cpu, oneErr := one()
			used, err = used+cpu, errors.Join(err, oneErr)
		}
		return used, err
	}
	processes := min(r.Processes, r.Slots)
	for i := range processes {
		workers := r.Slots*(i+1)/processes - r.Slots*i/processes
		one, err := r.StartProcess(ctx, r.Lambda, workers, r.seen.start)
		if err != nil {
			return stop, err
		}
		stops = append(stops, one)
	}
	return stop, nil
}

// warmUp waits until the worker runs tasks.
func (r *run) warmUp(ctx context.Context) error {
	for range 3 {
		if _, err := r.Client.Schedule(ctx, sdk.Item{Lambda: r.lambdaOf(0), Payload: warmUpPayload(r.PayloadBytes), Tags: r.tagsOf(0)}); err != nil {
			return err
		}
		if err := r.seen.awaitWarm(ctx, patienceBase); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) cleanUp(ctx context.Context) error {
	if r.Keep {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patienceBase+time.Duration(r.Tasks)*patiencePerTask)
	defer cancel()
	if r.Kind == Crons {
		if err := r.deleteCrons(ctx); err != nil {
			return err
		}
	}
	var calls errgroup.Group
	calls.SetLimit(callersMax)
	for i := range r.lambdas() {
		calls.Go(func() error {
			_, err := admin.New(r.Client).Lambdas.Delete(ctx, r.lambdaOf(i), admin.LambdaDeleteOptions{DropTasks: true})
			return err
		})
	}
	return calls.Wait()
}

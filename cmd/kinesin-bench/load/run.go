// Package load is the load generator of kinesin-bench: it schedules tasks on a server, runs them in a
// worker in its own process, and counts exactly, by the number in each task's payload. It starts no server
// and judges no figure.
package load

import (
	"context"
	"errors"
	"fmt"
	"time"

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
)

// Limits of a run.
const (
	TasksMax      = 10_000_000
	SlotsMax      = 10_000
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
	// Tasks is the number of tasks; for Steady it follows from Rate and Duration.
	Tasks        int
	Rate         float64       // tasks per second, of Steady
	Duration     time.Duration // of Steady
	Slots        int           // of the worker
	PayloadBytes int           // at least 8
	Batch        int           // tasks per call when inserting
	Ahead        time.Duration // from the start of the insertion to the first due time; 0: enough for a slow insertion
	IdleMax      time.Duration // of Immediate: longest random pause before each task
	Spread       bool          // of Crons: they fire within a minute, each in a second that H draws
	Shards       int           // of the lambda; 0: the server's default
	OthersRate   float64       // of Sets: tasks per second of another lambda; 0: none
	// LimitKeys is how many limit keys the tasks have in turn, of each of which LimitKeyConcurrency run at
	// once; 0: they have none.
	LimitKeys           int
	LimitKeyConcurrency int
	// Lambda names the lambda that is created for the run, and deleted afterwards with all its tasks unless
	// Keep is set.
	Lambda   string
	Keep     bool
	Pages    int // of the console that are open meanwhile, of Steady
	Progress Progress
}

// ErrConfig is returned for an invalid Config; the text says what is allowed.
var ErrConfig = errors.New("cannot be run")

// Validate sets Tasks of a Steady run, and refuses invalid values.
func (c *Config) Validate() error {
	if c.Kind == Steady {
		c.Tasks = int(c.Rate * c.Duration.Seconds())
	}
	return errors.Join(
		within("tasks", c.Tasks, 1, TasksMax),
		within("workers", c.Slots, 1, SlotsMax),
		within("payload bytes", c.PayloadBytes, indexBytes, 1<<20),
		within("batch", c.Batch, 1, 10_000),
		within("tasks per second of the other lambda", c.OthersRate, 0, othersRateMax),
		within("pages", c.Pages, 0, PagesMax),
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
	r := &run{Config: c, seen: newRecord(c.Tasks)}
	if _, _, err := admin.New(c.Client).Lambdas.Create(ctx, admin.Lambda{Name: c.Lambda, Shards: c.Shards, Priorities: []string{"normal"}, LimitKeyConcurrency: c.LimitKeyConcurrency}); err != nil {
		return Report{}, err
	}
	report, err := r.measure(ctx)
	return report, errors.Join(err, r.cleanUp(ctx))
}

// run is a run in progress.
type run struct {
	Config

	seen     *record
	open     *pages
	inserted phase
	accepted int
}

// measure runs the load, with a worker if it needs one.
func (r *run) measure(ctx context.Context) (Report, error) {
	switch r.Kind {
	case Insert:
		return r.insertOnly(ctx)
	case Sets:
		return r.sets(ctx)
	case Wall, Steady, Immediate, Crons:
	}
	load := map[Kind]func(context.Context) (phase, error){Wall: r.wall, Steady: r.steady, Immediate: r.immediate, Crons: r.crons}[r.Kind]
	if load == nil {
		return Report{}, fmt.Errorf("%w: unknown kind %q", ErrConfig, r.Kind)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop, stopped := r.startWorker(ctx, cancel)
	var measured phase
	err := r.warmUp(ctx)
	if err == nil && r.Pages > 0 {
		if r.open, err = r.openPages(ctx); err == nil {
			defer r.open.close()
		}
	}
	if err == nil {
		measured, err = load(ctx)
	}
	stop()
	if workerErr := <-stopped; err == nil {
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

// startWorker runs the worker until stop is called. If it ends by itself, it calls fail.
func (r *run) startWorker(ctx context.Context, fail context.CancelCauseFunc) (stop func(), stopped <-chan error) {
	w := sdk.NewWorker(r.Client, sdk.Slots(r.Slots), sdk.Grace(time.Second))
	sdk.NewLambda[[]byte](r.Lambda).Handle(w, func(_ context.Context, t *sdk.Task[[]byte]) error {
		r.seen.start(t.Args, time.Now())
		return nil
	})
	ctx, stop = context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		err := w.Run(ctx)
		if ctx.Err() == nil {
			fail(fmt.Errorf("the worker ended: %w", errors.Join(err, errors.New("before the load did"))))
		}
		ended <- err
	}()
	return stop, ended
}

// warmUp waits until the worker runs tasks.
func (r *run) warmUp(ctx context.Context) error {
	for range 3 {
		if _, err := r.Client.Schedule(ctx, sdk.Item{Lambda: r.Lambda, Payload: warmUpPayload(r.PayloadBytes)}); err != nil {
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
	_, err := admin.New(r.Client).Lambdas.Delete(ctx, r.Lambda, admin.LambdaDeleteOptions{DropTasks: true})
	return err
}

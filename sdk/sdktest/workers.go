package sdktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// worker is a worker of this server. tracker's lock guards its fields.
type worker struct {
	id     string // empty until it is registered
	groups []controller.Group
	opens  bool // its first stream is not answered yet
	over   bool // it takes no more tasks
}

// serves reports whether one of its groups runs tasks of the lambda and has a free slot.
func (w *worker) serves(lambda string, t *tracker) bool {
	if w.over || w.id == "" {
		return false
	}
	for _, g := range w.groups {
		inGroup := func(name string) bool { return slices.Contains(g.Lambdas, name) }
		if inGroup(lambda) && t.HeldBy(w.id, inGroup) < g.Slots {
			return true
		}
	}
	return false
}

// attempt is a handler that runs. tracker's lock guards sleeps and waits; the other fields never change.
type attempt struct {
	work  *kinesinv1.Claimed
	start task.Instant
	end   task.Instant    // when it times out; zero for never
	ctx   context.Context //nolint:containedctx // the handler's, to see whether it has ended
	asked *atomic.Bool    // whether the handler has used its context

	sleeps map[*sleep]struct{} // its calls of Sleep
	waits  bool                // it is assumed to wait on its context
}

// sleep is a call of Sleep.
type sleep struct {
	until task.Instant
	of    *attempt // nil outside a handler
}

// waiting reports whether the handler waits for time to move, or for the end of its context.
func (a *attempt) waiting(now task.Instant) bool {
	if a.ctx.Err() != nil || !a.end.IsZero() && a.end <= now {
		return false
	}
	for s := range a.sleeps {
		if s.until <= now {
			return false
		}
	}
	return a.waits || len(a.sleeps) > 0
}

func (a *attempt) String() string {
	return fmt.Sprintf("%s task %s (attempt %d)", a.work.Lambda, a.work.Id, a.work.Attempt)
}

// handlerContext is the context of a handler. It records that the handler used it.
type handlerContext struct {
	context.Context //nolint:containedctx // it is one

	attempt *attempt
}

type attemptKey struct{}

// Done implements context.Context.
func (c handlerContext) Done() <-chan struct{} {
	c.attempt.asked.Store(true)
	return c.Context.Done()
}

// Err implements context.Context.
func (c handlerContext) Err() error {
	c.attempt.asked.Store(true)
	return c.Context.Err()
}

// Value implements context.Context.
func (c handlerContext) Value(key any) any {
	if key == (attemptKey{}) {
		return c.attempt
	}
	return c.Context.Value(key)
}

// follow makes the tracker follow a worker that is about to run, and adapts the worker to virtual time.
func (k *Kinesin) follow(ctx context.Context, c *controller.Config) {
	w := &worker{groups: c.Groups}
	k.tracker.addWorker(w)
	context.AfterFunc(ctx, func() { k.tracker.endWorker(w) })
	c.Linger, c.Grace = -1, -1
	c.Exit = nil // it would end the test program
	c.Backend = impatient{c.Backend, func() { k.tracker.opened(w) }}
	s, _ := ctx.Value(startedKey{}).(*started)
	held := c.Hooks.LeaseHeld
	c.Hooks.LeaseHeld = func(id string, left time.Duration) {
		k.tracker.register(w, id)
		s.isRegistered()
		if held != nil {
			held(id, left)
		}
	}
	execute := c.Execute
	c.Execute = func(ctx context.Context, work *kinesinv1.Claimed) controller.Outcome {
		a := k.tracker.begin(ctx, work, k.time.Now())
		defer k.tracker.finish(a)
		return execute(handlerContext{ctx, a}, work)
	}
}

// impatient ends a worker whose lambda does not exist: in a test nobody is going to create it.
// It tells when the stream of the worker is answered: a worker does not wait for that as long as time may jump.
type impatient struct {
	controller.Backend

	opened func()
}

// Work implements controller.Backend.
func (b impatient) Work(ctx context.Context) (controller.Stream, error) {
	s, err := b.Backend.Work(ctx)
	if err != nil {
		b.opened()
		return nil, err
	}
	return &told{Stream: s, opened: b.opened}, nil
}

// told tells when the worker has handled the first message, and when the stream has ended. If time jumped
// before that, the worker would take the stream for one that was silent for too long.
type told struct {
	controller.Stream

	opened   func()
	received bool
}

// Receive implements controller.Stream. A worker that calls it again has handled the message before.
func (s *told) Receive() (*kinesinv1.WorkResponse, error) {
	if s.received {
		s.opened()
	}
	response, err := s.Stream.Receive()
	s.received = true
	if err != nil {
		s.opened()
	}
	return response, err
}

// Register implements controller.Backend.
func (b impatient) Register(ctx context.Context, r *kinesinv1.RegisterRequest) (*kinesinv1.RegisterResponse, error) {
	response, err := b.Backend.Register(ctx, r)
	if errors.Is(err, sdk.ErrUnknownLambda) {
		return nil, api.Errorf(kinesinv1.Reason_REASON_INVALID, "%v", err)
	}
	return response, err
}

// Run starts a worker, which runs until stop is called or the test ends, and returns when the worker takes
// tasks. stop returns when the worker has ended. It ends the contexts of its handlers at once, without the
// grace of Worker.Run.
func (k *Kinesin) Run(w *sdk.Worker) (stop func()) {
	k.tb.Helper()
	return k.Start(w.Run)
}

// Start is Run for code that makes its own worker and runs it until ctx ends. It returns when the first
// worker takes tasks.
func (k *Kinesin) Start(run func(ctx context.Context) error) (stop func()) {
	k.tb.Helper()
	s := &started{registered: make(chan struct{}), over: make(chan struct{})}
	ctx, cancel := context.WithCancel(context.WithValue(k.base, startedKey{}, s))
	go func() {
		defer close(s.over)
		s.err = run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		k.waitFor(s)
	})
	k.mu.Lock()
	k.stops = append(k.stops, stop)
	k.mu.Unlock()
	timer := clock.Real().NewTimer(StallDefault)
	defer timer.Stop()
	select {
	case <-s.registered:
	case <-s.over:
		k.tb.Fatalf("sdktest: the worker ended at once: %v", s.err)
	case <-timer.C():
		k.tb.Fatalf("sdktest: no worker was running after %v", StallDefault)
	}
	return stop
}

// started is a call of Start.
type started struct {
	once       sync.Once
	registered chan struct{}
	over       chan struct{}
	err        error // readable when over is closed
}

type startedKey struct{}

func (s *started) isRegistered() {
	if s != nil {
		s.once.Do(func() { close(s.registered) })
	}
}

// waitFor waits until a worker that was asked to stop has ended.
func (k *Kinesin) waitFor(s *started) {
	k.tb.Helper()
	timer := clock.Real().NewTimer(k.cfg.stall)
	defer timer.Stop()
	select {
	case <-s.over:
	case <-timer.C():
		stuck := k.tracker.describe(k.time.Now())
		k.jump(k.time.Now().Add(killAfterMost)) // then the worker abandons its handlers
		<-s.over
		k.tb.Errorf("sdktest: a worker was stopped, but %v later its handlers had not returned:%s", k.cfg.stall, stuck)
		return
	}
	if s.err != nil && !errors.Is(s.err, context.Canceled) {
		k.tb.Errorf("sdktest: a worker ended: %v", s.err)
	}
}

// killAfterMost is longer than any worker waits for handlers to return.
const killAfterMost = 30 * 24 * time.Hour

// Sleep waits for d in virtual time. If ctx ends first, it returns the cause. Give it to code under test
// instead of time.Sleep. In a handler, pass the handler's context, or one derived from it, so that Advance
// knows that the handler waits.
func (k *Kinesin) Sleep(ctx context.Context, d time.Duration) error {
	s, timer := k.startSleep(ctx, d)
	defer timer.Stop()
	defer k.tracker.endSleep(s)
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// startSleep starts a timer while time cannot move.
func (k *Kinesin) startSleep(ctx context.Context, d time.Duration) (*sleep, clock.Timer) {
	k.tracker.Lock()
	defer k.tracker.Unlock()
	s := &sleep{until: k.time.Now().Add(max(d, 0))}
	s.of, _ = ctx.Value(attemptKey{}).(*attempt)
	k.tracker.addSleep(s)
	return s, k.clock.NewTimer(d)
}

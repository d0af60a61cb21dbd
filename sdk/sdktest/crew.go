package sdktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// worker is a worker of this Kinesin. Its fields are guarded by tracker.mu.
type worker struct {
	id     string // empty until it is registered
	groups []controller.Group
	over   bool // it takes no more tasks
}

// serves reports whether one of its groups runs tasks of the lambda and has a free slot.
func (w *worker) serves(lambda string, r *rows) bool {
	if w.over || w.id == "" {
		return false
	}
	for _, g := range w.groups {
		inGroup := func(name string) bool { return slices.Contains(g.Lambdas, name) }
		if inGroup(lambda) && r.inHand(w.id, inGroup) < g.Slots {
			return true
		}
	}
	return false
}

// attempt is a handler under way. Its fields are guarded by tracker.mu, but for the first ones, which never
// change.
type attempt struct {
	work  *controller.Work
	start task.Instant
	end   task.Instant    // when it times out; zero for never
	ctx   context.Context //nolint:containedctx // the handler's, to see whether it has ended
	asked *atomic.Bool    // whether the handler has looked at its context

	sleeps map[*sleep]struct{} // under way in it
	waits  bool                // it is taken to wait on its context
}

// sleep is a call of Sleep.
type sleep struct {
	until task.Instant
	of    *attempt // nil outside of a handler
}

// waiting reports whether the handler goes on only when time does, or when somebody ends its context.
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
	return fmt.Sprintf("%s task %s (attempt %d)", a.work.Lambda, a.work.ID, a.work.Attempt)
}

// handlerContext is the context of a handler. It notes that the handler looked at it.
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

// employ has the tracker follow a worker that is about to run, and fits the worker to time that stands still.
func (k *Kinesin) employ(ctx context.Context, c *controller.Config) {
	w := &worker{groups: c.Groups}
	k.tracker.hire(w)
	context.AfterFunc(ctx, func() { k.tracker.dismiss(w) })
	c.Linger, c.Grace = -1, -1
	c.Exit = nil // it would end the test program
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
	c.Execute = func(ctx context.Context, work *controller.Work) controller.Outcome {
		a := k.tracker.begin(ctx, work, k.time.Now())
		defer k.tracker.finish(a)
		return execute(handlerContext{ctx, a}, work)
	}
}

// Run starts a worker, which runs until stop is called or the test ends, and returns when it takes tasks.
// stop returns when the worker has: handlers that run then are told so by their contexts at once, without the
// grace that Worker.Run gives them.
func (k *Kinesin) Run(w *sdk.Worker) (stop func()) {
	k.tb.Helper()
	return k.Start(w.Run)
}

// Start is Run for code under test that makes its own worker of Client and runs it under ctx. It returns when
// the first worker takes tasks.
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
		k.awaitEnd(s)
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

// awaitEnd waits for a worker that was asked to stop.
func (k *Kinesin) awaitEnd(s *started) {
	k.tb.Helper()
	timer := clock.Real().NewTimer(k.cfg.stall)
	defer timer.Stop()
	select {
	case <-s.over:
	case <-timer.C():
		stuck := k.tracker.describe(k.time.Now())
		k.jump(k.time.Now().Add(killAfterMost)) // then the worker gives its handlers up
		<-s.over
		k.tb.Errorf("sdktest: a worker was stopped, but %v later its handlers had not returned:%s", k.cfg.stall, stuck)
		return
	}
	if s.err != nil && !errors.Is(s.err, context.Canceled) {
		k.tb.Errorf("sdktest: a worker ended: %v", s.err)
	}
}

// killAfterMost is longer than any worker waits for handlers that were told to stop.
const killAfterMost = 30 * 24 * time.Hour

// Sleep waits for d in virtual time or for the end of ctx, whose cause it then returns. Code under test is
// given it instead of time.Sleep. In a handler it needs the handler's ctx, or one derived from it: then
// Advance knows that the handler waits for time, and that it goes on when the time has come.
func (k *Kinesin) Sleep(ctx context.Context, d time.Duration) error {
	s, timer := k.fallAsleep(ctx, d)
	defer timer.Stop()
	defer k.tracker.wake(s)
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// fallAsleep sets the timer while time cannot move.
func (k *Kinesin) fallAsleep(ctx context.Context, d time.Duration) (*sleep, clock.Timer) {
	k.tracker.mu.Lock()
	defer k.tracker.mu.Unlock()
	s := &sleep{until: k.time.Now().Add(max(d, 0))}
	s.of, _ = ctx.Value(attemptKey{}).(*attempt)
	k.tracker.addSleep(s)
	return s, k.clock.NewTimer(d)
}

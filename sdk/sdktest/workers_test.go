package sdktest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

func TestAStoppedWorkerGivesItsTasksBack(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	causes := make(chan error, 1)
	stop := r.handle(func(ctx context.Context, _ *sdk.Task[Mail]) error {
		err := r.k.Sleep(ctx, time.Hour)
		causes <- err
		return err
	})
	id := r.schedule("ada", sdk.MaxAttempts(1))
	r.k.Advance(time.Minute)
	stop()
	if cause := <-causes; !errors.Is(cause, sdk.ErrDraining) {
		t.Errorf("the handler's context ended with %v", cause)
	}
	sdktest.RequireState(t, r.k, id, sdk.StateEnqueued)
	r.k.Advance(day)
	r.handle(nil)
	r.k.Advance(0)
	if info := sdktest.RequireState(t, r.k, id, sdk.StateSuccess); info.Failures != 0 || info.Attempt != 2 {
		t.Errorf("%d failures, attempt %d", info.Failures, info.Attempt)
	}
	stop()
}

func TestStartRunsAnAppThatMakesItsOwnWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ended := make(chan struct{})
	stop := r.k.Start(func(ctx context.Context) error {
		defer close(ended)
		w := sdk.NewWorker(r.k.Client(), sdk.Use(func(next sdk.Handler) sdk.Handler {
			return func(ctx context.Context, t *sdk.Task[[]byte]) error {
				r.sent.add("middleware", r.k.Now().Sub(r.start))
				return next(ctx, t)
			}
		}))
		sendMail.Handle(w, func(context.Context, *sdk.Task[Mail]) error { return nil }, sdk.Concurrency(1))
		return w.Run(ctx)
	})
	r.schedule("ada", sdk.In(day))
	r.k.Advance(day)
	r.sent.want(t, delivery{"middleware", day})
	stop()
	<-ended
}

func TestCallsFromElsewhereWhileTimeMoves(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.handle(nil)
	const each = 50
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			for range each {
				if _, err := sendMail.Schedule(t.Context(), r.k.Client(), Mail{"ada"}, sdk.In(time.Hour)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		r.k.Advance(time.Hour)
	}
	calls.Wait()
	r.k.Advance(time.Hour)
	if n := len(r.sent.all); n != 4*each {
		t.Errorf("%d tasks ran, want %d", n, 4*each)
	}
}

func TestOpenWithoutATest(t *testing.T) {
	t.Parallel()
	k := sdktest.Open()
	defer k.Close()
	k.Lambda("send-mail")
	defer func() {
		wantText(t, fmt.Sprint(recover()), "time cannot go back")
	}()
	k.Advance(-1)
}

// failing runs what is to fail a test, and returns with what.
func failing(t *testing.T, f func(tb *fakeTB)) string {
	t.Helper()
	tb := &fakeTB{TB: t}
	var run sync.WaitGroup
	run.Go(func() { f(tb) })
	run.Wait()
	for _, cleanup := range tb.cleanups {
		cleanup()
	}
	return strings.Join(tb.failures, "\n")
}

// fakeTB is a test that may fail.
type fakeTB struct {
	testing.TB

	failures []string
	cleanups []func()
}

func (f *fakeTB) Helper()          {}
func (f *fakeTB) Cleanup(g func()) { f.cleanups = append(f.cleanups, g) }
func (f *fakeTB) Errorf(format string, args ...any) {
	f.failures = append(f.failures, fmt.Sprintf(format, args...))
}

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}

func wantText(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("message does not say %q:\n%s", p, text)
		}
	}
}

func TestAHandlerThatDoesNotReturnFailsTheTest(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var id sdk.ID
	message := failing(t, func(tb *fakeTB) {
		k := sdktest.New(tb, sdktest.Stall(50*time.Millisecond))
		k.Lambda("send-mail")
		w := sdk.NewWorker(k.Client())
		sendMail.Handle(w, func(context.Context, *sdk.Task[Mail]) error {
			<-release
			return nil
		})
		k.Run(w)
		id, _ = sendMail.Schedule(t.Context(), k.Client(), Mail{"ada"}, sdk.In(day))
		k.Advance(2 * day)
	})
	close(release)
	wantText(t, message, "nothing has happened for 50ms", "send-mail task "+string(id)+" (attempt 1): its handler has not returned",
		"Kinesin.Sleep", "a worker was stopped, but 50ms later its handlers had not returned")
}

func TestAHandlerThatSnoozesForNoTimeFailsTheTest(t *testing.T) {
	t.Parallel()
	message := failing(t, func(tb *fakeTB) {
		k := sdktest.New(tb)
		k.Lambda("send-mail")
		w := sdk.NewWorker(k.Client())
		sendMail.Handle(w, func(context.Context, *sdk.Task[Mail]) error { return sdk.Snooze(0) })
		k.Run(w)
		_, _ = sendMail.Schedule(t.Context(), k.Client(), Mail{"ada"})
		k.Advance(day)
	})
	wantText(t, message, "started 1000 times without time moving on")
}

func TestAWorkerThatCannotStartFailsTheTest(t *testing.T) {
	t.Parallel()
	message := failing(t, func(tb *fakeTB) {
		k := sdktest.New(tb)
		w := sdk.NewWorker(k.Client())
		sendMail.Handle(w, func(context.Context, *sdk.Task[Mail]) error { return nil })
		k.Run(w)
	})
	wantText(t, message, "the worker ended at once", "send-mail", "create it first")
}

func TestRequirementsSayWhatThereIs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.handle(func(context.Context, *sdk.Task[Mail]) error { return errors.New("mailbox is full") })
	id := r.schedule("ada", sdk.In(time.Hour), sdk.Key("k1"), sdk.Collection("spring"), sdk.Priority("high"))
	r.schedule("bob", sdk.In(2*time.Hour), sdk.At(r.start.Add(3*time.Hour)))
	spring := sdktest.RequireScheduled(t, r.k, sendMail, sdktest.Collection("spring"), sdktest.Priority("high"), sdktest.State(sdk.StateScheduled))
	if spring.ID != id || spring.Args.To != "ada" {
		t.Errorf("%+v", spring)
	}
	sdktest.RequireScheduled(t, r.k, sendMail, sdktest.At(r.start.Add(3*time.Hour)), sdktest.Where(func(m Mail) bool { return m.To == "bob" }))
	sdktest.RequireNotScheduled(t, r.k, sendMail, sdktest.Args(Mail{"eve"}))
	if n := len(sdktest.FindScheduled(t, r.k, sendMail)); n != 2 {
		t.Errorf("%d tasks", n)
	}
	r.k.Advance(time.Hour)
	for want, f := range map[string]func(tb *fakeTB){
		`2 send-mail tasks, want 1`: func(tb *fakeTB) { sdktest.RequireScheduled(tb, r.k, sendMail) },
		`0 send-mail tasks with key "k2", due 1h0m0s after it was scheduled, want 1`: func(tb *fakeTB) {
			sdktest.RequireScheduled(tb, r.k, sendMail, sdktest.Key("k2"), sdktest.In(time.Hour))
		},
		`1 send-mail tasks with arguments {To:ada}, want none`: func(tb *fakeTB) {
			sdktest.RequireNotScheduled(tb, r.k, sendMail, sdktest.Args(Mail{"ada"}))
		},
		`task is retriable_failure, want success`: func(tb *fakeTB) { sdktest.RequireState(tb, r.k, id, sdk.StateSuccess) },
	} {
		wantText(t, failing(t, f), want, string(id), "key k1", `payload {"to":"ada"}`, "attempt 1: retriable_failure mailbox is full")
	}
}

func TestATraceContextReachesTheHandler(t *testing.T) {
	t.Parallel()
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	r := newRig(t)
	var got []string
	r.handle(func(_ context.Context, task *sdk.Task[Mail]) error {
		got = append(got, task.Traceparent)
		return nil
	})
	traced, plain := r.schedule("ada", sdk.In(time.Hour), sdk.Traceparent(trace)), r.schedule("bob", sdk.In(2*time.Hour))
	if info := sdktest.RequireState(t, r.k, traced, sdk.StateScheduled); info.Traceparent != trace {
		t.Errorf("scheduled with %q", info.Traceparent)
	}
	r.k.Advance(3 * time.Hour)
	if !slices.Equal(got, []string{trace, ""}) {
		t.Errorf("handlers got %q", got)
	}
	sdktest.RequireState(t, r.k, plain, sdk.StateSuccess)
	if _, err := sendMail.Schedule(t.Context(), r.k.Client(), Mail{}, sdk.Traceparent("00-1-2-3")); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("a bad one: %v", err)
	}
}

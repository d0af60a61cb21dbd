package sdktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

func TestCancelOfARunningTask(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	causes := make(chan error, 1)
	r.handle(func(ctx context.Context, _ *sdk.Task[Mail]) error {
		err := r.k.Sleep(ctx, 10*time.Minute)
		causes <- context.Cause(ctx)
		return err
	})
	id := r.schedule("ada")
	r.k.Advance(time.Minute)
	sdktest.RequireState(t, r.k, id, sdk.StateProcessing)
	if outcome, err := r.k.Client().Cancel(t.Context(), id); outcome != sdk.CancelRequested || err != nil {
		t.Fatal(outcome, err)
	}
	r.k.Advance(0)
	if cause := <-causes; !errors.Is(cause, sdk.ErrCancelled) {
		t.Errorf("the handler's context ended with %v", cause)
	}
	if info := sdktest.RequireState(t, r.k, id, sdk.StateCancelled); !info.Ended.Equal(r.start.Add(time.Minute)) {
		t.Errorf("ended %v", info.Ended.Sub(r.start))
	}
}

func TestTenThousandTasksOverAYear(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.handle(nil)
	const n, year = 10_000, 365 * day
	calls := make([]sdk.Call[Mail], n)
	at := func(i int) time.Duration { return time.Duration(i*7919%n+1) * (year / n) } // all different, and out of order
	for i := range calls {
		calls[i] = sdk.Call[Mail]{Args: Mail{fmt.Sprint(at(i))}, Options: []sdk.Option{sdk.In(at(i))}}
	}
	if _, err := sendMail.ScheduleMany(t.Context(), r.k.Client(), calls); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r.k.Advance(year)
	t.Logf("a year took %v", time.Since(began))
	if len(r.sent.all) != n {
		t.Fatalf("%d tasks ran, want %d", len(r.sent.all), n)
	}
	for i, d := range r.sent.all {
		if d.to != fmt.Sprint(d.at) {
			t.Fatalf("the task due after %s ran after %v", d.to, d.at)
		}
		if i > 0 && d.at <= r.sent.all[i-1].at {
			t.Fatalf("%v ran after %v", d, r.sent.all[i-1])
		}
	}
}

func TestTimeoutOfAHandlerThatWaitsOnItsContext(t *testing.T) {
	t.Parallel()
	r := newRig(t, sdktest.Patience(20*time.Millisecond))
	causes := make(chan error, 2)
	r.handle(func(ctx context.Context, t *sdk.Task[Mail]) error {
		if t.Attempt > 1 {
			return nil
		}
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return ctx.Err()
	})
	id := r.schedule("ada", sdk.In(time.Hour)) // and no timeout of its own: 15 minutes
	r.k.Advance(day)
	if cause := <-causes; !errors.Is(cause, sdk.ErrTimeout) {
		t.Errorf("the handler's context ended with %v", cause)
	}
	info := sdktest.RequireState(t, r.k, id, sdk.StateSuccess)
	if took := info.Attempts[0].End.Sub(info.Attempts[0].Start); took != 15*time.Minute || info.Failures != 1 {
		t.Errorf("timed out after %v, %d failures", took, info.Failures)
	}
}

func TestAHandlerMaySleepThroughSeveralAdvances(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.handle(func(ctx context.Context, t *sdk.Task[Mail]) error {
		derived, cancel := context.WithCancel(ctx)
		defer cancel()
		err := r.k.Sleep(derived, 10*time.Minute)
		r.sent.add(t.Args.To+" woke", r.k.Now().Sub(r.start))
		return err
	}, sdk.Slots(1))
	one, two := r.schedule("one", sdk.In(time.Minute)), r.schedule("two", sdk.In(2*time.Minute))
	for range 10 {
		r.k.Advance(time.Minute)
	}
	sdktest.RequireState(t, r.k, one, sdk.StateProcessing)
	sdktest.RequireState(t, r.k, two, sdk.StateEnqueued) // the one slot is taken
	r.k.Advance(time.Hour)
	r.sent.want(t, delivery{"one", time.Minute}, delivery{"one woke", 11 * time.Minute},
		delivery{"two", 11 * time.Minute}, delivery{"two woke", 21 * time.Minute})
	for _, id := range []sdk.ID{one, two} {
		if info := sdktest.RequireState(t, r.k, id, sdk.StateSuccess); info.Attempt != 1 {
			t.Errorf("%d attempts", info.Attempt)
		}
	}
}

func TestHandlersScheduleWhatFollows(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.handle(func(ctx context.Context, t *sdk.Task[Mail]) error {
		if len(t.Args.To) == 5 {
			return nil
		}
		_, err := sendMail.Schedule(ctx, r.k.Client(), Mail{t.Args.To + "+"}, sdk.In(day))
		return err
	})
	r.schedule("+")
	r.k.Advance(3 * day)
	r.sent.want(t, delivery{"+", 0}, delivery{"++", day}, delivery{"+++", 2 * day}, delivery{"++++", 3 * day})
	r.k.Advance(30 * day)
	if len(r.sent.all) != 5 {
		t.Errorf("%d mails", len(r.sent.all))
	}
}

func TestWaitForWhatIsDueNow(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.handle(nil)
	id := r.schedule("ada")
	results, err := r.k.Client().Wait(t.Context(), id)
	if err != nil || results[0].Task.State != sdk.StateSuccess {
		t.Errorf("%+v, %v", results, err)
	}
}

func TestStartAt(t *testing.T) {
	t.Parallel()
	start := time.Date(2030, 3, 31, 0, 30, 0, 0, time.UTC)
	r := newRig(t, sdktest.StartAt(start))
	r.handle(nil)
	due := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	id := r.schedule("ada", sdk.At(due))
	r.k.AdvanceTo(due.Add(-time.Millisecond))
	r.sent.want(t)
	r.k.AdvanceTo(due)
	r.k.AdvanceTo(start)
	if info := sdktest.RequireState(t, r.k, id, sdk.StateSuccess); !info.Started.Equal(due) || !r.k.Now().Equal(due) {
		t.Errorf("started %v, now %v", info.Started, r.k.Now())
	}
}

func TestInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.handle(nil)
		r.schedule("ada", sdk.In(30*day))
		r.k.Advance(30 * day)
		r.sent.want(t, delivery{"ada", 30 * day})
		if at := time.Now().Format(time.DateOnly); at != "2000-01-01" {
			t.Errorf("the bubble's time is %v", at)
		}
	})
}

package sdktest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

func TestSnoozeChargesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.handle(func(_ context.Context, t *sdk.Task[Mail]) error {
		if t.Attempt < 4 {
			return sdk.Snooze(7 * day)
		}
		return nil
	})
	id := r.schedule("ada", sdk.In(day), sdk.MaxAttempts(1))
	r.k.Advance(60 * day)
	r.sent.want(t, delivery{"ada", day}, delivery{"ada", 8 * day}, delivery{"ada", 15 * day}, delivery{"ada", 22 * day})
	if len(r.k.Tasks(sendMail.Name())) != 0 {
		t.Error("the task is kept although its retention is over")
	}
	if _, err := r.k.Client().Get(t.Context(), id); !errors.Is(err, sdk.ErrNotFound) {
		t.Errorf("%v, want %v", err, sdk.ErrNotFound)
	}
}

func TestFatalAndPanicAndGoexit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.handle(func(_ context.Context, t *sdk.Task[Mail]) error {
		if t.Args.To == "panic" && t.Attempt == 1 {
			panic("no")
		}
		if t.Args.To == "fatal" {
			return sdk.Fatal(errors.New("address is malformed"))
		}
		return nil
	})
	fatal, panicked := r.schedule("fatal", sdk.In(time.Second)), r.schedule("panic", sdk.In(time.Minute))
	r.k.Advance(time.Hour)
	if info := sdktest.RequireState(t, r.k, fatal, sdk.StateFatalFailure); info.Attempts[0].Error != "address is malformed" {
		t.Errorf("%+v", info.Attempts)
	}
	if info := sdktest.RequireState(t, r.k, panicked, sdk.StateSuccess); info.Failures != 1 {
		t.Errorf("%d failures", info.Failures)
	}
}

func TestCancelBeforeItIsDue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.handle(nil)
	for _, opts := range [][]sdk.Option{{sdk.In(day)}, {sdk.In(day), sdk.Key("k")}} {
		id := r.schedule("ada", opts...)
		r.k.Advance(time.Hour)
		if outcome, err := r.k.Client().Cancel(t.Context(), id); outcome != sdk.CancelDone || err != nil {
			t.Fatal(outcome, err)
		}
		r.k.Advance(2 * day)
		sdktest.RequireState(t, r.k, id, sdk.StateCancelled)
		if _, err := r.k.Client().Cancel(t.Context(), id); !errors.Is(err, sdk.ErrTooLate) {
			t.Errorf("cancel of an ended task: %v", err)
		}
	}
	r.sent.want(t)
}

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

func TestTheSameKeyIsTheSameTask(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.handle(nil)
	first := r.schedule("ada", sdk.In(30*day), sdk.Key("reminder-42"))
	if again := r.schedule("ada", sdk.In(60*day), sdk.Key("reminder-42")); again != first {
		t.Errorf("a second task %s beside %s", again, first)
	}
	_, err := sendMail.Schedule(t.Context(), r.k.Client(), Mail{"bob"}, sdk.Key("reminder-42"))
	if !errors.Is(err, sdk.ErrKeyConflict) {
		t.Errorf("another payload under the key: %v", err)
	}
	r.k.Advance(90 * day)
	r.sent.want(t, delivery{"ada", 30 * day})
}

func TestHigherPrioritiesStartFirst(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, p := range []string{"low", "normal", "high"} {
		for i := range 3 {
			r.schedule(fmt.Sprint(p, i), sdk.In(time.Hour), sdk.Priority(p))
		}
	}
	r.k.Advance(2 * time.Hour) // all of them are in their queues
	r.handle(nil, sdk.Slots(1))
	r.k.Advance(0)
	var got []string
	for _, d := range r.sent.all {
		got = append(got, d.to[:len(d.to)-1])
	}
	want := []string{"high", "high", "high", "normal", "normal", "normal", "low", "low", "low"}
	if !slices.Equal(got, want) {
		t.Errorf("started %v, want %v", got, want)
	}
}

func TestPayloadsOfAllSizes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.handle(nil)
	for _, size := range []int{0, 1, 1000, 100_000} {
		to := strings.Repeat("a", size)
		id := r.schedule(to, sdk.In(time.Hour))
		sdktest.RequireScheduled(t, r.k, sendMail, sdktest.Args(Mail{to}))
		r.k.Advance(time.Hour)
		sdktest.RequireState(t, r.k, id, sdk.StateSuccess)
		if n := len(r.sent.all); r.sent.all[n-1].to != to {
			t.Errorf("a payload of %d bytes arrived with %d", size, len(r.sent.all[n-1].to))
		}
	}
	_, err := sendMail.Schedule(t.Context(), r.k.Client(), Mail{strings.Repeat("a", 300_000)})
	if !errors.Is(err, sdk.ErrTooLarge) {
		t.Errorf("too large a payload: %v", err)
	}
}

func TestALambdaWithSlotsOfItsOwnIsNotHeldUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.k.Lambda("slow")
	slow := sdk.NewLambda[Mail]("slow")
	w := sdk.NewWorker(r.k.Client(), sdk.Slots(1))
	slow.Handle(w, func(ctx context.Context, _ *sdk.Task[Mail]) error { return r.k.Sleep(ctx, 10*time.Minute) })
	sendMail.Handle(w, func(_ context.Context, t *sdk.Task[Mail]) error {
		r.sent.add(t.Args.To, r.k.Now().Sub(r.start))
		return nil
	}, sdk.Concurrency(1))
	r.k.Run(w)
	for range 3 {
		if _, err := slow.Schedule(t.Context(), r.k.Client(), Mail{}, sdk.In(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	r.schedule("ada", sdk.In(time.Hour+time.Minute))
	r.k.Advance(2 * time.Hour)
	r.sent.want(t, delivery{"ada", time.Hour + time.Minute})
	var late []time.Duration
	for _, info := range r.k.Tasks("slow") {
		late = append(late, info.Lateness())
	}
	slices.Sort(late) // no order is promised among tasks due at one moment
	if want := []time.Duration{0, 10 * time.Minute, 20 * time.Minute}; !slices.Equal(late, want) {
		t.Errorf("slow tasks were late by %v, want %v", late, want)
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

func TestManyTasksDueAtOneMoment(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.handle(nil)
	const n = 10_000 // more than a queue of the server's usual size takes
	calls := make([]sdk.Call[Mail], n)
	for i := range calls {
		calls[i] = sdk.Call[Mail]{Args: Mail{fmt.Sprint(i)}, Options: []sdk.Option{sdk.In(30 * day)}}
	}
	if _, err := sendMail.ScheduleMany(t.Context(), r.k.Client(), calls); err != nil {
		t.Fatal(err)
	}
	r.k.Advance(30 * day)
	if len(r.sent.all) != n {
		t.Fatalf("%d tasks ran, want %d", len(r.sent.all), n)
	}
	seen := map[string]bool{}
	for _, d := range r.sent.all {
		if d.at != 30*day || seen[d.to] {
			t.Fatalf("%v ran twice, or not when it was due", d)
		}
		seen[d.to] = true
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

func TestTimeoutWhileAsleep(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.handle(func(ctx context.Context, _ *sdk.Task[Mail]) error { return r.k.Sleep(ctx, day) })
	id := r.schedule("ada", sdk.In(time.Hour), sdk.Timeout(time.Minute), sdk.MaxAttempts(1))
	r.k.Advance(day)
	info := sdktest.RequireState(t, r.k, id, sdk.StateDead)
	if took := info.Ended.Sub(info.Started); took != time.Minute {
		t.Errorf("ended %v after its start", took)
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

func TestLambdasAreAsOnAServer(t *testing.T) {
	t.Parallel()
	k := sdktest.New(t)
	if _, err := sendMail.Schedule(t.Context(), k.Client(), Mail{}); !errors.Is(err, sdk.ErrUnknownLambda) {
		t.Errorf("schedule for a lambda that does not exist: %v", err)
	}
	if info := k.Lambda("send-mail", admin.Lambda{MaxAttempts: 3}); info.MaxAttempts != 3 || info.Timeout != 15*time.Minute {
		t.Errorf("%+v", info)
	}
	k.Lambda("send-mail", admin.Lambda{MaxAttempts: 3})
	if _, _, err := k.Admin().Lambdas.Create(t.Context(), admin.Lambda{Name: "send-mail", MaxAttempts: 4}); !errors.Is(err, sdk.ErrExists) {
		t.Errorf("another setting: %v", err)
	}
	if _, err := sendMail.Schedule(t.Context(), k.Client(), Mail{}, sdk.In(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Admin().Lambdas.Delete(t.Context(), "send-mail", admin.LambdaDeleteOptions{}); !errors.Is(err, sdk.ErrInUse) {
		t.Errorf("delete with live tasks: %v", err)
	}
	if n, err := k.Admin().Lambdas.Delete(t.Context(), "send-mail", admin.LambdaDeleteOptions{DropTasks: true}); n != 1 || err != nil {
		t.Errorf("delete: %d, %v", n, err)
	}
	k.Advance(day)
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

package controller_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTaskStartsAtItsTimeAndReports(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		c := claimed(1)
		c.Hold, c.Due = 20_000, int64(epoch.Add(20*time.Millisecond))
		r.push(c)
		r.pass(20*time.Millisecond - time.Microsecond)
		r.wantNoStart()
		r.pass(time.Microsecond)
		run := r.started()
		if run.work.Attempt != 1 || run.work.Lambda != "mail" || string(run.work.Payload) != "{}" {
			t.Errorf("work is %+v", run.work)
		}
		r.ends(run, task.OutcomeSuccess)
		r.wantResults("success") // nothing else runs: no linger
		if got := r.stream().results()[0].Started; got != c.Due {
			t.Errorf("started at %d, want %d", got, c.Due)
		}
	})
}

// TestWhatIsDueAtOneInstantStartsInOrder has messages that are more and less late on their way: how long a task is
// to be held is counted from when its message comes.
func TestWhatIsDueAtOneInstantStartsInOrder(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		due := epoch.Add(20 * time.Millisecond)
		n := 0
		push := func(holds ...time.Duration) {
			var all []*kinesinv1.Claimed
			for _, hold := range holds {
				n++
				c := claimed(n)
				c.Hold, c.Due = hold.Microseconds(), int64(due)
				all = append(all, c)
			}
			r.push(all...)
		}
		push(20 * time.Millisecond)
		r.pass(time.Millisecond)
		push(18800*time.Microsecond, 18800*time.Microsecond) // it was under way for less long
		push(19500 * time.Microsecond)
		before := claimed(100)
		before.Hold, before.Due = 5000, int64(due.Add(-10*time.Millisecond))
		r.push(before)
		r.pass(18799 * time.Microsecond)
		first := r.started()
		if !bytes.Equal(first.work.Task, taskID(100)) {
			t.Errorf("%x started first", first.work.Task)
		}
		r.wantNoStart()
		r.ends(first, task.OutcomeSuccess)
		r.pass(time.Microsecond)
		for i := range n {
			run := r.started()
			if !bytes.Equal(run.work.Task, taskID(i+1)) {
				t.Errorf("%x started as number %d", run.work.Task, i+1)
			}
			r.wantNoStart()
			r.ends(run, task.OutcomeSuccess)
			synctest.Wait()
		}
	}, func(c *controller.Config) { c.Groups[0].Slots = 1 })
}

func TestAResultLingersForOthersUnlessToldNotTo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		linger time.Duration
		before int
	}{{0, 0}, {-1, 1}} {
		inBubble(t, func(r *rig) {
			r.push(claimed(1), claimed(2), claimed(3))
			run := r.started()
			r.ends(run, task.OutcomeSuccess)
			if n := len(r.stream().results()); n != c.before {
				t.Errorf("linger %v: %d results sent at once, want %d", c.linger, n, c.before)
			}
			r.pass(controller.LingerDefault)
			r.wantResults("success")
		}, func(cfg *controller.Config) {
			cfg.Linger = c.linger
			cfg.Groups[0].Slots = 100
		})
	}
}

func TestStartIsNeverReportedBeforeTheDueTime(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		c := claimed(1)
		c.Due = int64(epoch.Add(time.Millisecond)) // the server's clock is ahead by that much
		r.push(c)
		r.ends(r.started(), task.OutcomeSuccess)
		if got := r.stream().results()[0].Started; got != c.Due {
			t.Errorf("started at %d, want %d", got, c.Due)
		}
	})
}

func TestStartIsOnTheServersClock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.hsc.set(func() {
			r.hsc.answer = &kinesinv1.HeartbeatResponse{Now: int64(epoch.Add(time.Hour + 3750*time.Millisecond))}
		})
		r.pass(3750 * time.Millisecond) // the second heartbeat learns the offset
		r.push(claimed(1))
		r.ends(r.started(), task.OutcomeSuccess)
		want := int64(epoch.Add(time.Hour + 3750*time.Millisecond))
		if got := r.stream().results()[0].Started; got != want {
			t.Errorf("started at %d, want %d", got, want)
		}
	})
}

func TestResultsLingerForOthers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		for n := range 40 {
			r.push(claimed(n))
		}
		var runs []*run
		for range 40 {
			runs = append(runs, r.started())
		}
		r.ends(runs[0], task.OutcomeSuccess)
		r.wantResults()
		r.pass(2 * time.Millisecond)
		r.wantResults("success")
		for n := 1; n < 11; n++ { // a fourth of the slots waits for nothing
			r.ends(runs[n], task.OutcomeSuccess)
		}
		if got := len(r.stream().results()); got != 11 {
			t.Errorf("%d results on the stream, want 11", got)
		}
		for _, run := range runs[11:] {
			r.ends(run, task.OutcomeSuccess)
		}
	}, func(c *controller.Config) { c.Groups[0].Slots, c.Linger = 40, 2*time.Millisecond })
}

func TestResultsSayHowLongTheirHandlersRan(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		run := r.started()
		r.pass(3 * time.Millisecond)
		r.ends(run, task.OutcomeSuccess)
		s := r.stream()
		s.mu.Lock()
		defer s.mu.Unlock()
		if got := task.Micros(s.sent[len(s.sent)-1].Longest); got != 3*time.Millisecond {
			t.Errorf("%v, want 3ms", got)
		}
	})
}

func TestMoreTasksThanSlotsWait(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		for n := range 5 {
			r.push(claimed(n))
		}
		runs := []*run{r.started(), r.started(), r.started(), r.started()}
		r.wantNoStart()
		r.ends(runs[0], task.OutcomeSuccess)
		runs[0] = r.started()
		for _, run := range runs {
			r.ends(run, task.OutcomeSuccess)
		}
	})
}

func TestTaskThatWaitsTooLongForASlotIsGivenBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1), claimed(2), claimed(3))
		one := r.started()
		r.wantNoStart() // there is one slot
		r.pass(49 * time.Millisecond)
		r.wantResults()
		r.ends(one, task.OutcomeSuccess)
		two := r.started() // waited, but not too long
		r.pass(time.Millisecond)
		r.wantResults("success", "released")
		r.ends(two, task.OutcomeSuccess)
		r.wantNoStart()
		r.wantResults("success", "released", "success")
	}, func(c *controller.Config) { c.Groups[0].Slots = 1 })
}

func TestResultIsKeptUntilAcknowledged(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		r.ends(r.started(), task.OutcomeSuccess)
		r.wantResults("success")

		r.acknowledge(&kinesinv1.Problem{Reason: kinesinv1.Reason_REASON_UNAVAILABLE})
		r.pass(110 * time.Millisecond) // backoff and linger
		r.wantResults("success", "success")

		r.stream().broken <- errors.New("connection reset")
		r.pass(100 * time.Millisecond)
		if r.streams() != 2 {
			t.Fatalf("%d streams, want 2", r.streams())
		}
		if held := r.stream().sent[0].Hello.Held; len(held) != 1 || held[0].Attempt != 1 {
			t.Errorf("hello names %v", held)
		}
		r.wantResults("success")

		r.acknowledge(nil)
		r.stream().broken <- errors.New("connection reset")
		r.pass(100 * time.Millisecond)
		r.wantResults()
		if held := r.stream().sent[0].Hello.Held; len(held) != 0 {
			t.Errorf("hello names %v after the acknowledgement", held)
		}
	})
}

func TestFencedResultIsDropped(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		r.ends(r.started(), task.OutcomeSuccess)
		r.acknowledge(&kinesinv1.Problem{Reason: kinesinv1.Reason_REASON_FENCED})
		if r.hooks.fenced.Load() != 1 {
			t.Error("the hook was not called")
		}
		r.stream().broken <- errors.New("connection reset")
		r.pass(100 * time.Millisecond)
		r.wantResults()
	})
}

func TestStartIsReportedOfLongAttemptsOnly(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1), claimed(2))
		short, long := r.started(), r.started()
		r.pass(199 * time.Millisecond)
		r.ends(short, task.OutcomeSuccess)
		if r.stream().started() != 0 {
			t.Fatal("started was reported early")
		}
		r.pass(3 * time.Millisecond)
		if got := r.stream().started(); got != 1 {
			t.Fatalf("%d starts reported, want 1", got)
		}
		r.stream().broken <- errors.New("connection reset") // a new stream is told again
		r.pass(60 * time.Millisecond)
		if got := r.stream().started(); got != 1 {
			t.Fatalf("%d starts reported on the new stream, want 1", got)
		}
		r.ends(long, task.OutcomeSuccess)
	})
}

func TestHandlersGoOnWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		run := r.started()
		r.hsc.set(func() { r.hsc.down = true })
		r.stream().broken <- errors.New("connection reset")
		r.pass(5 * time.Second)
		r.ends(run, task.OutcomeSuccess)
		if run.ctx.Err() == nil {
			t.Error("the context of a handler that returned goes on")
		}
		r.hsc.set(func() { r.hsc.down = false })
		r.pass(500*time.Millisecond + 2*time.Millisecond) // the longest wait between tries
		if r.streams() != 2 {
			t.Fatalf("%d streams, want 2", r.streams())
		}
		r.wantResults("success")
	})
}

// TestASilentStreamIsClosed matters because heartbeats take another way: they show that the worker lives, so
// tasks that they do not name by then are given to others.
func TestASilentStreamIsClosed(t *testing.T) {
	t.Parallel()
	alive := &kinesinv1.WorkResponse{Next: 2_000_000}
	inBubble(t, func(r *rig) {
		first := r.stream()
		for range 3 {
			first.inbox <- alive
			r.pass(3 * time.Second)
		}
		if r.streams() != 1 {
			t.Fatalf("%d streams, and the first was not silent for as long as it may", r.streams())
		}
		r.pass(time.Second + 502*time.Millisecond) // the longest wait between tries
		if r.streams() != 2 || first.ctx.Err() == nil {
			t.Fatalf("%d streams, the silent one closed %v; want another one", r.streams(), first.ctx.Err() != nil)
		}
		r.pass(time.Minute)
		if r.streams() != 2 {
			t.Errorf("%d streams: the server of the second did not say how often it is heard", r.streams())
		}
	})
}

// TestATaskThatWasHeldUpIsNotStarted stops a worker that then finds a task on its stream that came long ago.
func TestATaskThatWasHeldUpIsNotStarted(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.stream().inbox <- &kinesinv1.WorkResponse{Next: 2_000_000}
		r.pass(time.Second)
		r.suspend(4 * time.Second)
		r.push(claimed(1))
		r.pass(0)
		r.wantNoStart()
	})
}

func TestHeartbeatNamesAttemptsAndStopsThem(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		late := claimed(3)
		late.Hold = time.Minute.Microseconds()
		r.push(claimed(1), claimed(2), late)
		first, second := r.started(), r.started()
		if first.work == second.work {
			t.Fatal("the same attempt twice")
		}
		r.hsc.set(func() {
			r.hsc.answer = &kinesinv1.HeartbeatResponse{
				Cancels: []*kinesinv1.Held{{Task: taskID(1), Attempt: 1}, {Task: taskID(3), Attempt: 1}},
				Fenced:  []*kinesinv1.Held{{Task: taskID(2), Attempt: 1}},
			}
		})
		r.pass(3750 * time.Millisecond)
		if got := len(r.hsc.beats[len(r.hsc.beats)-1].Running); got != 3 {
			t.Fatalf("the heartbeat names %d attempts, want 3", got)
		}
		causes := []error{controller.ErrCancelled, controller.ErrFenced}
		if errors.Is(causeOf(first), controller.ErrFenced) {
			first, second = second, first
		}
		r.wantCause(first, causes[0])
		r.wantCause(second, causes[1])
		r.ends(second, task.OutcomeSuccess)
		r.ends(first, task.OutcomeRetriable)
		r.wantResults("cancelled", "cancelled") // the held one, then the one that obeyed
		if r.hooks.fenced.Load() != 1 {
			t.Error("the hook was not called")
		}
	})
}

func TestCancelOnTheStream(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		r.push(claimed(1))
		run := r.started()
		derived, cancel := context.WithCancel(run.ctx)
		defer cancel()
		r.stream().inbox <- &kinesinv1.WorkResponse{Cancels: []*kinesinv1.Held{{Task: taskID(1), Attempt: 1}}}
		r.wantCause(run, controller.ErrCancelled)
		for _, ctx := range []context.Context{run.ctx, derived} {
			<-ctx.Done()
			if err := ctx.Err(); !errors.Is(err, context.Canceled) || !errors.Is(context.Cause(ctx), controller.ErrCancelled) {
				t.Errorf("ended with %v because of %v", err, context.Cause(ctx))
			}
		}
		r.ends(run, task.OutcomeSuccess) // it was done before it noticed
		r.wantResults("success")
	})
}

func TestTimeoutEndsTheContext(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		c := claimed(1)
		c.Timeout = 1_000_000
		r.push(c)
		run := r.started()
		r.pass(time.Second - time.Microsecond)
		derived, cancel := context.WithCancel(run.ctx)
		defer cancel()
		if run.ctx.Err() != nil || derived.Err() != nil {
			t.Fatal("the context ended early")
		}
		r.pass(time.Microsecond)
		r.wantCause(run, controller.ErrTimeout)
		later, cancelLater := context.WithCancel(run.ctx)
		defer cancelLater()
		r.pass(0)
		for _, ctx := range []context.Context{run.ctx, derived, later} {
			<-ctx.Done()
			if err := ctx.Err(); !errors.Is(err, context.DeadlineExceeded) || !errors.Is(context.Cause(ctx), controller.ErrTimeout) {
				t.Errorf("ended with %v because of %v", err, context.Cause(ctx))
			}
		}
		run.done <- controller.Outcome{Kind: task.OutcomeRetriable, Error: "context canceled"}
		r.wantResults("retriable_failure")
		if got := r.stream().results()[0].Error; got != "timed out after 1s: context canceled" {
			t.Errorf("error is %q", got)
		}
	})
}

func TestPanicIsTheHandlersFailure(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		panics := claimed(1)
		panics.Key = "panics"
		r.push(panics, claimed(2))
		r.pass(2 * time.Millisecond)
		r.wantResults("retriable_failure", "retriable_failure")
		var texts []string
		for _, result := range r.stream().results() {
			texts = append(texts, result.Error)
		}
		all := strings.Join(texts, "\n")
		for _, want := range []string{"panic: no such user", "controller_test.explode", "runtime.Goexit"} {
			if !strings.Contains(all, want) {
				t.Errorf("%q is not in %q", want, all)
			}
		}
	}, func(c *controller.Config) {
		c.Execute = func(_ contextT, w *kinesinv1.Claimed) controller.Outcome { return explode(w) }
	})
}

func TestUnknownLambdaIsPutOff(t *testing.T) {
	t.Parallel()
	inBubble(t, func(r *rig) {
		c := claimed(1)
		c.Lambda = "other"
		r.push(c)
		r.wantNoStart()
		r.wantResults("snoozed")
		if got := r.stream().results()[0].Delay; got != 5_000_000 {
			t.Errorf("delay is %d µs", got)
		}
	})
}

func TestRefusedRegistrationEndsRun(t *testing.T) {
	t.Parallel()
	for _, refusal := range []error{api.ErrInvalid, api.ErrUnauthenticated, api.ErrPermissionDenied} {
		c, err := controller.New(controller.Config{
			Backend: refuse{err: refusal}, Execute: func(contextT, *kinesinv1.Claimed) controller.Outcome { return controller.Outcome{} },
			Groups: []controller.Group{{Lambdas: []string{"mail"}, Slots: 1}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Run(t.Context()); !errors.Is(err, refusal) {
			t.Errorf("Run returned %v, want %v", err, refusal)
		}
	}
}

// unknownLambda refuses registrations until the lambda exists.
type unknownLambda struct {
	*hsc

	exists atomic.Bool
	asked  atomic.Int64
}

func (u *unknownLambda) Register(ctx context.Context, r *kinesinv1.RegisterRequest) (*kinesinv1.RegisterResponse, error) {
	u.asked.Add(1)
	if !u.exists.Load() {
		return nil, api.Errorf(kinesinv1.Reason_REASON_UNKNOWN_LAMBDA, "unknown lambda %q", "mail")
	}
	response, err := u.hsc.Register(ctx, r)
	response.Missing = []string{"push"}
	return response, err
}

func TestAWorkerWaitsForItsLambda(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		server := &unknownLambda{hsc: &hsc{clock: clock.Real()}}
		c, err := controller.New(controller.Config{
			Backend: server, Execute: func(contextT, *kinesinv1.Claimed) controller.Outcome { return controller.Outcome{} },
			Groups: []controller.Group{{Lambdas: []string{"mail"}, Slots: 1}}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		// Between 0.25 s and 5 s are 2.6 s on average.
		if asked := server.asked.Load(); asked < 3600/5 || asked > 3600/2 || strings.Count(log.String(), "waiting") != 1 {
			t.Errorf("asked %d times in an hour: %s", asked, log.String())
		}
		server.exists.Store(true)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if server.registers != 1 {
			t.Errorf("registered %d times once the lambda existed", server.registers)
		}
		if !strings.Contains(log.String(), "lambdas=[push]") {
			t.Errorf("it does not say which lambda is missing: %s", log.String())
		}
		server.exists.Store(false)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestConfigSaysWhatIsAllowed(t *testing.T) {
	t.Parallel()
	_, err := controller.New(controller.Config{
		Lease:  time.Second,
		Groups: []controller.Group{{Lambdas: []string{"a b"}, Slots: 0}, {Lambdas: []string{"x"}, Slots: 9_999}, {Lambdas: []string{"x"}, Slots: 2}},
	})
	for _, want := range []string{"required", "lease 1s: want 3s to 1h0m0s", `"a b"`, "two groups", "10001 slots: want at most 10000", "0 slots"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
	if !errors.Is(err, controller.ErrConfig) {
		t.Errorf("%v is not ErrConfig", err)
	}
}

func explode(w *kinesinv1.Claimed) controller.Outcome {
	if w.Key == "panics" {
		panic("no such user")
	}
	runtime.Goexit()
	return controller.Outcome{}
}

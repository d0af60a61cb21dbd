package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/sdk"
)

type workStream = connect.BidiStream[kinesinv1.WorkRequest, kinesinv1.WorkResponse]

// hand sends tasks to the worker, acknowledges its results, and closes done when all are in.
func hand(tasks []*kinesinv1.Claimed, results map[string]*kinesinv1.Result, done chan<- struct{}) func(context.Context, *workStream) error {
	return func(_ context.Context, s *workStream) error {
		if _, err := s.Receive(); err != nil {
			return err
		}
		if err := s.Send(&kinesinv1.WorkResponse{Tasks: tasks}); err != nil {
			return err
		}
		for {
			request, err := s.Receive()
			if err != nil {
				return err
			}
			response := &kinesinv1.WorkResponse{}
			for _, r := range request.Results {
				results[string(r.Task)] = r
				response.Acks = append(response.Acks, &kinesinv1.ResultAck{Task: r.Task, Attempt: r.Attempt})
			}
			if err := s.Send(response); err != nil {
				return err
			}
			if len(results) == len(tasks) && len(response.Acks) > 0 {
				close(done)
			}
		}
	}
}

func claimed(id, lambda, payload string) *kinesinv1.Claimed {
	return &kinesinv1.Claimed{
		Task: []byte(id + strings.Repeat(" ", 16-len(id))), Id: "k1" + id, Lambda: lambda, Attempt: 3, Payload: []byte(payload),
		Timeout: time.Minute.Microseconds(), Due: time.Now().UnixMicro(),
	}
}

func quiet() sdk.ClientOption { return sdk.WithLogger(slog.New(slog.DiscardHandler)) }

func TestWorkerRunsTasksToTheirOutcomes(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	results, done := map[string]*kinesinv1.Result{}, make(chan struct{})
	s.work = hand([]*kinesinv1.Claimed{
		claimed("ok", "send-reminder", `{"user":1}`), claimed("fails", "send-reminder", `{"user":2}`),
		claimed("fatal", "send-reminder", `{"user":3}`), claimed("snooze", "send-reminder", `{"user":4}`),
		claimed("garbage", "send-reminder", `{"user":`), claimed("raw", "raw", "as it is"),
	}, results, done)

	var mu sync.Mutex
	var order []string
	trace := func(name string) sdk.Middleware {
		return func(next sdk.Handler) sdk.Handler {
			return func(ctx context.Context, t *sdk.Task[[]byte]) error {
				mu.Lock()
				if t.Lambda == "raw" {
					order = append(order, name)
				}
				mu.Unlock()
				return next(ctx, t)
			}
		}
	}
	w := sdk.NewWorker(s.client(t, quiet()), sdk.Slots(7), sdk.Lease(20*time.Second), sdk.Name("test"), sdk.Use(trace("outer"), trace("inner")))
	sendReminder.Handle(w, func(ctx context.Context, task *sdk.Task[reminder]) error {
		if _, set := ctx.Deadline(); !set || task.Attempt != 3 || task.ID[:2] != "k1" {
			return sdk.Fatal(fmt.Errorf("incomplete task %+v", task))
		}
		return map[int]error{
			2: errors.New("no route to host"), 3: fmt.Errorf("user: %w", sdk.Fatal(errors.New("no such user"))), 4: sdk.Snooze(time.Minute),
		}[task.Args.User]
	}, sdk.Concurrency(5))
	w.Register("raw", func(_ context.Context, task *sdk.Task[[]byte]) error {
		if string(task.Args) != "as it is" {
			return errors.New("wrong payload")
		}
		return nil
	})
	stop := runtest.Start(t, w.Run)
	<-done
	stop()
	for id, want := range map[string]string{
		"ok": "success ", "fails": "retriable_failure no route to host", "fatal": "fatal_failure user: no such user",
		"snooze": "snoozed snoozed for 1m0s", "garbage": "fatal_failure decode the arguments: unexpected end of JSON input", "raw": "success ",
	} {
		r := results[id+strings.Repeat(" ", 16-len(id))]
		if got := r.GetOutcome() + " " + r.GetError(); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
	if !slices.Equal(order, []string{"outer", "inner"}) {
		t.Errorf("middleware ran in the order %v", order)
	}
	g := s.registered.Groups
	if len(g) != 2 || g[0].Slots != 5 || g[1].Slots != 7 || s.registered.Name != "test" || s.registered.Lease != 20_000_000 || s.left != 1 {
		t.Errorf("registered %v, left %d times", s.registered, s.left)
	}
}

func TestWorkerReconnectsAfterTheServerEndsTheStream(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	results, done := map[string]*kinesinv1.Result{}, make(chan struct{})
	tries, connections := 0, map[string]bool{}
	second := hand([]*kinesinv1.Claimed{claimed("ok", "raw", "")}, results, done)
	s.work = func(ctx context.Context, w *workStream) error {
		connections[w.Peer().Addr] = true
		if tries++; tries < 3 {
			return unavailable()
		}
		return second(ctx, w)
	}
	w := sdk.NewWorker(s.client(t, quiet()))
	w.Register("raw", func(context.Context, *sdk.Task[[]byte]) error { return nil })
	stop := runtest.Start(t, w.Run)
	<-done
	stop()
	if tries != 3 || len(connections) != 3 {
		t.Errorf("ended after %d streams over %d connections, want 3 streams, each over a connection of its own", tries, len(connections))
	}
}

func TestWorkerSaysWhatIsWrongWithIt(t *testing.T) {
	t.Parallel()
	c := newServer(t).client(t)
	nothing := sdk.NewWorker(c)
	if err := nothing.Run(t.Context()); !errors.Is(err, sdk.ErrInvalid) || !strings.Contains(err.Error(), "no lambda to work for") {
		t.Errorf("no handler: %v", err)
	}
	w := sdk.NewWorker(c)
	sendReminder.Handle(w, nil)
	h := func(context.Context, *sdk.Task[[]byte]) error { return nil }
	w.Register("a", h)
	w.Register("a", h)
	w.Register("b", h, sdk.Concurrency(-1))
	err := w.Run(t.Context())
	for _, want := range []string{`"send-reminder": it is nil`, `"a": it has one already`, `concurrency -1 of lambda "b"`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

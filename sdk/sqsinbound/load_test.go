//go:build !windows

package sqsinbound_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/inbound/buffer/sqsbuffer"
	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sqsinbound"
)

// lane is a client, SQS in memory and a server that empties its queue, in one process.
type lane struct {
	*sqsinbound.Client

	sqs    *fakesqs.SQS
	server *sdk.Client
	runs   sync.Map // how often each task ran, by its argument
	ended  atomic.Int64
}

var numbered = sdk.NewLambda[int]("mail")

func newLane(tb testing.TB, work bool) *lane {
	tb.Helper()
	l := &lane{sqs: fakesqs.New(fakesqs.Config{Seed: 1, Attempts: 5})}
	l.server = serve(tb, l.sqs, "prod", func(c *sqsbuffer.Config) { c.PollGrace, c.Visibility = -1, time.Second })
	if err := admin.New(l.server).Lambdas.Ensure(tb.Context(), numbered, admin.Lambda{}); err != nil {
		tb.Fatal(err)
	}
	key, err := admin.New(l.server).InboundKey(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	if l.Client, err = sqsinbound.New(l.sqs, "prod", key); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := l.Close(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
	})
	if work {
		l.work(tb)
	}
	return l
}

// work counts how often each task runs.
func (l *lane) work(tb testing.TB) {
	tb.Helper()
	w := sdk.NewWorker(l.server, sdk.Slots(100))
	numbered.Handle(w, func(_ context.Context, t *sdk.Task[int]) error {
		n, _ := l.runs.LoadOrStore(t.Args, new(atomic.Int64))
		n.(*atomic.Int64).Add(1) //nolint:errcheck,forcetypeassert // nothing else is in there
		l.ended.Add(1)
		return nil
	})
	runtest.Start(tb, w.Run)
}

// schedule schedules n tasks one by one from many callers.
func (l *lane) schedule(tb testing.TB, n int, opts ...sdk.Option) []sdk.ID {
	tb.Helper()
	ids := make([]sdk.ID, n)
	var next atomic.Int64
	var callers sync.WaitGroup
	for range 64 {
		callers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				id, err := numbered.Schedule(tb.Context(), l, i, opts...)
				if err != nil {
					tb.Error(err)
				}
				ids[i] = id
			}
		})
	}
	callers.Wait()
	return ids
}

// await returns when all tasks are in a state.
func (l *lane) await(tb testing.TB, ids []sdk.ID, state sdk.State) {
	tb.Helper()
	ctx, cancel := clock.Within(tb.Context(), clock.Real(), time.Minute)
	defer cancel()
	for len(ids) > 0 {
		part := ids[:min(1000, len(ids))]
		results, err := l.server.GetMany(ctx, part)
		if err != nil {
			tb.Fatal(err)
		}
		if !slices.ContainsFunc(results, func(r sdk.GetResult) bool { return r.Err != nil || r.Task.State != state }) {
			ids = ids[len(part):]
		} else if err := clock.Sleep(ctx, clock.Real(), 10*time.Millisecond); err != nil {
			tb.Fatalf("%d tasks are not %s: %v", len(ids), state, err)
		}
	}
}

// Each task runs exactly once, despite duplicates, deleted messages that come again, lost answers and partial
// failures of every call.
func TestEveryTaskRunsOnceWhateverSQSDoes(t *testing.T) {
	t.Parallel()
	l := newLane(t, true)
	f := l.sqs.Faults
	odds := map[awsfake.Fault]float64{
		awsfake.Throttled: 0.03, awsfake.Refused: 0.03, awsfake.BrokenAfter: 0.03, awsfake.LostAnswer: 0.03, awsfake.Partial: 0.03,
		awsfake.PartialDone: 0.03, fakesqs.Twice: 0.2, fakesqs.Undead: 0.2, fakesqs.Reordered: 0.2,
	}
	for fault, p := range odds {
		f.Next(awsfake.Any, fault, 1) // certainly once: in batches, 3,000 tasks are about 150 calls
		f.Odds(awsfake.Any, fault, p)
	}
	const n = 3000
	l.await(t, l.schedule(t, n), sdk.StateSuccess)
	ran := 0
	l.runs.Range(func(arg, times any) bool {
		ran++
		if got := times.(*atomic.Int64).Load(); got != 1 { //nolint:errcheck,forcetypeassert // nothing else is in there
			t.Errorf("task %v ran %d times", arg, got)
		}
		return true
	})
	if ran != n || l.ended.Load() != n {
		t.Errorf("%d of %d tasks ran", ran, n)
	}
	for fault := range odds {
		if f.Fired(fault) == 0 {
			t.Errorf("%s never happened", fault)
		}
	}
}

func TestRequestsPerThousandTasks(t *testing.T) {
	t.Parallel()
	l := newLane(t, false)
	const n = 10_000
	before := l.sqs.Calls(awsfake.Any)
	l.await(t, l.schedule(t, n, sdk.In(time.Hour)), sdk.StateScheduled)
	if requests := float64(l.sqs.Calls(awsfake.Any)-before) * 1000 / n; requests > 150 {
		t.Errorf("%.0f requests for 1,000 tasks", requests)
	} else {
		t.Logf("%.0f requests for 1,000 tasks: %d sends, %d receives, %d deletes for %d tasks", requests, l.sqs.Calls("SendMessageBatch"),
			l.sqs.Calls("ReceiveMessage"), l.sqs.Calls("DeleteMessageBatch"), n)
	}
}

// BenchmarkThroughTheQueue measures a task from its client into the store over SQS in memory, without the AWS
// SDK.
func BenchmarkThroughTheQueue(b *testing.B) {
	l := newLane(b, false)
	b.ReportAllocs()
	b.ResetTimer()
	l.await(b, l.schedule(b, b.N, sdk.In(time.Hour)), sdk.StateScheduled)
}

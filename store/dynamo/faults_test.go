package dynamo_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/task"
)

// The faults and writers of TestWritesThroughBrokenConnections.
const (
	faultFor      = 400 * time.Millisecond
	faultTimeout  = 150 * time.Millisecond // of requests
	faultWriters  = 12
	writersAtOnce = 3 // rows that one writer changes in a call
)

// TestWritesThroughBrokenConnections changes rows through a proxy that breaks connections in every way.
// Acknowledged writes are there, surely refused ones are not, and an unknown write is one of the two.
func TestWritesThroughBrokenConnections(t *testing.T) {
	t.Parallel()
	local := awslocal.Start(t)
	prefix := local.Prefix(t)
	if err := dynamo.Setup(t.Context(), dynamodb.NewFromConfig(local.Config(t)), prefix, dynamo.SetupOptions{}); err != nil {
		t.Fatal(err)
	}
	proxy := awslocal.NewProxy(t, local.DynamoDB)
	client := dynamodb.NewFromConfig(awslocal.Endpoints{DynamoDB: proxy.URL()}.Config(t))
	var failed atomic.Int64
	s := store.New(dynamo.New(client, dynamo.Config{Prefix: prefix, RequestTimeout: faultTimeout, Observer: dynamo.Observer{
		Request: func(_ string, _ int, _ time.Duration, err error) {
			if err != nil {
				failed.Add(1)
			}
		},
	}}), store.Config{})
	t.Cleanup(func() { _ = s.Close() })

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var applied atomic.Int64
	var wg sync.WaitGroup
	for n := range faultWriters {
		wg.Go(func() { write(ctx, t, s, n, &applied) })
	}
	for _, fault := range []func(){
		func() { proxy.Latency(faultTimeout / 3) },
		func() { proxy.Latency(2 * faultTimeout) },
		func() { proxy.BlackHole(awslocal.Requests) },
		func() { proxy.BlackHole(awslocal.Replies) },
		func() { proxy.Reset(awslocal.Requests) },
		func() { proxy.Reset(awslocal.Replies) },
		func() { proxy.Refuse(); writeNothing(t, s) },
	} {
		before := applied.Load()
		for applied.Load() < before+2*faultWriters*writersAtOnce {
			time.Sleep(time.Millisecond)
		}
		fault()
		time.Sleep(faultFor)
		proxy.Heal()
	}
	stop()
	wg.Wait()
	if failed.Load() == 0 {
		t.Error("no request failed")
	}
}

// writeNothing writes to a service that cannot be reached: once the connections from before are used up, it
// is certain that nothing was written.
func writeNothing(t *testing.T, s *store.Store) {
	t.Helper()
	for range 100 {
		results, _ := s.Apply(t.Context(), []store.Op{wakeupOp(1, task.Partition{})})
		if results[0] == nil {
			t.Error("written to a service that cannot be reached")
			return
		}
		if !errors.Is(results[0], store.ErrUnknown) {
			return
		}
	}
	t.Error("the outcome of every write is unknown")
}

// write changes rows of its own, one version after the other, and checks that they match the results.
func write(ctx context.Context, t *testing.T, s *store.Store, n int, applied *atomic.Int64) {
	t.Helper()
	rows := make([]task.Task, writersAtOnce) // as they are known to be
	for i := range rows {
		rows[i] = benchTask(n*writersAtOnce + i)
		rows[i].Seq = 0
	}
	for ctx.Err() == nil {
		ops := make([]store.Op, len(rows))
		for i := range rows {
			ops[i] = store.Op{Kind: store.ReplaceTask, Task: step(rows[i], task.Enqueued, rows[i].Wake)}
			if rows[i].Seq == 0 {
				ops[i].Kind = store.PutTask
			}
		}
		results, _ := s.Apply(context.WithoutCancel(ctx), ops)
		for i, result := range results {
			if result == nil {
				applied.Add(1)
				rows[i] = ops[i].Task
				continue
			}
			seq, ok := current(ctx, s, rows[i].ID)
			switch {
			case !ok:
				return
			case seq == rows[i].Seq:
			case seq == ops[i].Task.Seq && errors.Is(result, store.ErrUnknown):
				rows[i] = ops[i].Task
			default:
				t.Errorf("row %s is at seq %d; it was at %d, and the next write was answered %v", rows[i].ID, seq, rows[i].Seq, result)
				return
			}
		}
	}
}

// current reads a row until it can be read; ok is false when the test is over first.
func current(ctx context.Context, s *store.Store, id task.ID) (seq uint64, ok bool) {
	for {
		rows, err := s.Tasks(ctx, []task.ID{id})
		if err == nil {
			return rows[0].Seq, true
		}
		if ctx.Err() != nil {
			return 0, false
		}
		time.Sleep(5 * time.Millisecond)
	}
}

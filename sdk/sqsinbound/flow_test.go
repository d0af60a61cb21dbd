//go:build !windows

package sqsinbound_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/kinesin-io/kinesin/inbound/buffer/sqsbuffer"
	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sqsinbound"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/test/harness"
)

// serve runs a server with an inbound buffer on ElasticMQ, and returns a client of it.
func serve(tb testing.TB, queues sqs.API, prefix string, change func(*sqsbuffer.Config), opts ...sdk.ClientOption) *sdk.Client {
	tb.Helper()
	if _, err := sqsclient.Create(tb.Context(), queues, sqsbuffer.Queues(prefix)); err != nil {
		tb.Fatal(err)
	}
	config := sqsbuffer.Config{Prefix: prefix, Clock: clock.Real()}
	if change != nil {
		change(&config)
	}
	return harness.RunNode(tb, node.Config{
		Store: storemem.New(), Queue: queuemem.New(clock.Real(), queuemem.Config{DepthMax: 100_000}), Log: slog.New(slog.DiscardHandler),
		Buffer: sqsbuffer.New(queues, config), InboundRate: -1, Near: time.Second,
	}, opts...).Client
}

// Tasks run that a client put into the queue through real SQS calls, and tasks that the server put there.
func TestFlow(t *testing.T) {
	t.Parallel()
	endpoints := awslocal.Start(t)
	queues, prefix := awssqs.NewFromConfig(endpoints.Config(t)), endpoints.Prefix(t)
	server := serve(t, queues, prefix, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	greet := sdk.NewLambda[int]("greet")
	if err := admin.New(server).Lambdas.Ensure(ctx, greet, admin.Lambda{}); err != nil {
		t.Fatal(err)
	}
	key, err := admin.New(server).InboundKey(ctx)
	if err != nil {
		t.Fatal(err)
	}
	direct, err := sqsinbound.New(queues, prefix, key)
	if err != nil {
		t.Fatal(err)
	}

	var mu sync.Mutex
	var greeted []int
	worker := sdk.NewWorker(server, sdk.Slots(50))
	greet.Handle(worker, func(_ context.Context, t *sdk.Task[int]) error {
		mu.Lock()
		defer mu.Unlock()
		greeted = append(greeted, t.Args)
		return nil
	})
	working, stopWorking := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- worker.Run(working) }()

	const each = 300
	var ids []sdk.ID
	var calls []sdk.Call[int]
	for n := range each {
		calls = append(calls, sdk.Call[int]{Args: n, Options: []sdk.Option{sdk.In(time.Duration(n) * time.Millisecond)}})
	}
	results, err := greet.ScheduleMany(ctx, direct, calls)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		ids = append(ids, r.ID)
	}
	later := make([]sdk.Call[int], each)
	for n := range later {
		later[n] = sdk.Call[int]{Args: each + n, Options: []sdk.Option{sdk.In(3 * time.Second)}}
	}
	if results, err = greet.ScheduleMany(ctx, server, later); err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		ids = append(ids, r.ID)
	}
	cancelled, err := greet.Schedule(ctx, direct, -1, sdk.In(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := server.Cancel(ctx, cancelled); err != nil || r != "cancelled" {
		t.Errorf("%v, %v", r, err)
	}
	ids = append(ids, cancelled)

	known, err := server.Wait(ctx, ids...)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range known {
		want := sdk.StateSuccess
		if i == len(known)-1 {
			want = sdk.StateCancelled
		}
		if r.Err != nil || r.Task.State != want || r.Task.ID != ids[i] || r.Task.Attempt > 1 || want == sdk.StateSuccess && r.Task.Lateness() < 0 {
			t.Fatalf("task %d: %+v, %v", i, r.Task, r.Err)
		}
	}
	slices.Sort(greeted)
	for n := range 2 * each {
		if len(greeted) != 2*each || greeted[n] != n {
			t.Fatalf("%d greeted: %v", len(greeted), greeted)
		}
	}
	stopWorking()
	if err := <-worked; err != nil {
		t.Error(err)
	}
	if err := direct.Close(ctx); err != nil {
		t.Error(err)
	}
	rejected, err := rejectedBy(ctx, server)
	if err != nil || len(rejected) != 0 {
		t.Errorf("%v, %v", rejected, err)
	}
}

// rejectedBy reads all that a server has set aside.
func rejectedBy(ctx context.Context, server *sdk.Client) (all []admin.RejectedMessage, err error) {
	for one, err := range admin.New(server).Rejected.List(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// A message of a client with another key is neither taken nor set aside, and holds up nobody.
func TestAClientWithAnotherKeyIsNotHeard(t *testing.T) {
	t.Parallel()
	endpoints := awslocal.Start(t)
	queues, prefix := awssqs.NewFromConfig(endpoints.Config(t)), endpoints.Prefix(t)
	server := serve(t, queues, prefix, nil)
	stranger, err := sqsinbound.New(queues, prefix, base64.RawURLEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	id, err := mail.Schedule(t.Context(), stranger, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	key, err := admin.New(server).InboundKey(ctx)
	if err != nil {
		t.Fatal(err)
	}
	client, err := sqsinbound.New(queues, prefix, key)
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.New(server).Lambdas.Ensure(ctx, mail, admin.Lambda{}); err != nil {
		t.Fatal(err)
	}
	heard, err := mail.Schedule(ctx, client, nil)
	if err != nil {
		t.Fatal(err)
	}
	for { // until the consumer has taken what came after
		if info, err := server.Get(ctx, heard); err == nil && info.State != sdk.StateAccepted {
			break
		}
		if err := clock.Sleep(ctx, clock.Real(), 20*time.Millisecond); err != nil {
			t.Fatal(fmt.Errorf("a task with the right key is not taken: %w", err))
		}
	}
	if rejected, err := rejectedBy(ctx, server); err != nil || len(rejected) != 0 {
		t.Errorf("set aside: %+v, %v", rejected, err)
	}
	if _, err := server.Get(ctx, id); err == nil {
		t.Error("its id is known")
	}
	if err := client.Close(ctx); err != nil {
		t.Error(err)
	}
	if err := stranger.Close(ctx); err != nil {
		t.Error(err)
	}
}

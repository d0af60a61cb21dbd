package node

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakedynamo"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/task"
)

// cloud is DynamoDB and SQS in memory, with their limits, lags and faults.
type cloud struct {
	tables *fakedynamo.DB
	queues *fakesqs.SQS

	keyUnits float64 // write units a second that a key takes; 0: as many as of the real one
}

// drivers returns the real drivers over the cloud, separate ones for each node. Call it in the bubble.
func (c *cloud) drivers(t *testing.T) drivers {
	t.Helper()
	const prefix = "k"
	return drivers{own: func(ctx context.Context, now func() *Node) (store.Driver, queue.Driver) {
		if c.tables == nil {
			c.tables = fakedynamo.New(fakedynamo.Config{Clock: clock.Real(), IndexLag: 2 * time.Second, Attempts: 3, WriteUnits: c.keyUnits})
			c.queues = fakesqs.New(fakesqs.Config{Clock: clock.Real(), CountLag: 5 * time.Second, Attempts: 3})
			if err := dynamo.Setup(ctx, c.tables, prefix, dynamo.SetupOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		log := slog.New(slog.DiscardHandler)
		return dynamo.New(c.tables, dynamo.Config{Prefix: prefix, Clock: clock.Real(), Logger: log}), sqs.New(c.queues, sqs.Config{
			Codec:  sqs.Codec{Append: store.AppendTask, Decode: store.DecodeTask, Newer: store.ErrVersion},
			Prefix: prefix, Clock: clock.Real(), Log: log,
			Lambda: func(ref uint32) (task.Lambda, bool) {
				if n := now(); n != nil {
					return n.Lambda(ref)
				}
				return task.Lambda{}, false
			},
			Lambdas: func() []task.Lambda {
				if n := now(); n != nil {
					return n.Lambdas()
				}
				return nil
			},
		})
	}}
}

// TestTheCloudIsAway runs whole processes over DynamoDB and SQS, and takes one of the two away under load, in
// every possible way: refused, without an answer, done but without an answer, throttled.
func TestTheCloudIsAway(t *testing.T) {
	for _, c := range []struct {
		name   string
		store  []awsfake.Fault
		queue  []awsfake.Fault
		away   time.Duration
		spared bool // nothing is taken from anybody
	}{
		{name: "nothing is", away: time.Minute, spared: true},
		{name: "DynamoDB refuses for a moment", store: []awsfake.Fault{awsfake.Refused}, away: 6 * time.Second, spared: true},
		{name: "DynamoDB refuses", store: []awsfake.Fault{awsfake.Refused}, away: 2 * time.Minute},
		{name: "DynamoDB does not answer", store: []awsfake.Fault{awsfake.LostRequest}, away: 2 * time.Minute},
		{name: "DynamoDB does half of it and never says so", store: []awsfake.Fault{awsfake.LostRequest, awsfake.LostAnswer}, away: 2 * time.Minute},
		{name: "DynamoDB throttles", store: []awsfake.Fault{awsfake.Throttled}, away: 2 * time.Minute},
		{name: "SQS refuses", queue: []awsfake.Fault{awsfake.Refused}, away: 2 * time.Minute, spared: true},
		{name: "SQS does half of it and never says so", queue: []awsfake.Fault{awsfake.LostRequest, awsfake.LostAnswer}, away: 2 * time.Minute, spared: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var aws cloud
			inRig(t, aws.drivers(t), 2, remote, func(r *rig) {
				r.lambda(admin.Lambda{Name: "mail", Timeout: time.Hour, Shards: 2, BackoffMin: time.Second, BackoffMax: 2 * time.Second})
				failing := func(ctx context.Context, t *sdk.Task[[]byte]) error {
					if t.Failures == 0 && string(t.Payload) == "11ms" {
						return errors.New("not this time")
					}
					return lasts(ctx, t)
				}
				for i := range 4 {
					r.work(r.nodes[i%2], "mail", failing, sdk.Slots(100))
				}
				for i := range 50 {
					r.lasting(10*time.Minute, 0)
					r.lasting(time.Duration(i)*200*time.Millisecond, 20*time.Second)
					r.lasting(10*time.Millisecond, time.Duration(i)*2*time.Second)
					r.lasting(11*time.Millisecond, time.Duration(i)*2*time.Second)
				}
				time.Sleep(25 * time.Second)
				for _, fault := range c.store {
					aws.tables.Faults.Odds(awsfake.Any, fault, 1/float64(len(c.store)))
				}
				for _, fault := range c.queue {
					aws.queues.Faults.Odds(awsfake.Any, fault, 1/float64(len(c.queue)))
				}
				time.Sleep(c.away)
				aws.tables.Faults.Off()
				aws.queues.Faults.Off()
				back := time.Now()
				r.settled(time.Hour)
				most := 3
				if c.spared {
					most = 2
				}
				runs := r.book.check(t, most)
				if n := r.lost(); c.spared && (n+r.book.deaths > 0 || runs != 250) {
					t.Errorf("%d attempts were taken over, %d processes ended, %d runs of 200 tasks, 50 of which fail once", n, r.book.deaths, runs)
				}
				t.Logf("%d runs, %d processes ended, %d attempts taken over, settled %v after", runs, r.book.deaths, r.lost(), time.Since(back).Round(time.Second))
			})
		})
	}
}

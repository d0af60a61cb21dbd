package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

// remote configures a node for a store and a queue that are services.
func remote(c *Config) { c.Window = 16 * time.Second }

func quick(context.Context, *sdk.Task[[]byte]) error { return nil }

// TestWritesOfATasksLife counts the writes of a task's life, and DynamoDB's write units. Whoever adds a write
// has to change this table and docs/reference/cost.md.
func TestWritesOfATasksLife(t *testing.T) {
	failing := errors.New("not this time")
	for _, c := range []struct {
		name    string
		item    sdk.Item
		handler sdk.Handler
		cancel  bool
		queued  int // through the queue: so many writes, and units
		matched int // with a worker that waits
	}{
		{name: "scheduled", item: sdk.Item{In: time.Minute}, handler: quick, queued: 5, matched: 4},
		{name: "scheduled with a key", item: sdk.Item{In: time.Minute, Key: "k"}, handler: quick, queued: 6, matched: 5},
		{name: "immediate", handler: quick, queued: 5, matched: 4},
		{name: "immediate with a key", item: sdk.Item{Key: "k"}, handler: quick, queued: 5, matched: 4},
		{name: "large payload", item: sdk.Item{In: time.Minute, Payload: make([]byte, 10_000)}, handler: quick, queued: 6, matched: 5},
		{ // two tasks, of which the second has no more than a first row besides what ends the first
			name: "a chain of two", item: sdk.Item{In: time.Minute, Then: []sdk.Item{{Lambda: "mail"}}}, handler: quick, queued: 5 + 5, matched: 4 + 4,
		},
		{
			name: "one retry", queued: 5 + 3, matched: 4 + 2,
			handler: func(_ context.Context, t *sdk.Task[[]byte]) error {
				if t.Failures == 0 {
					return failing
				}
				return nil
			},
		},
		{
			name: "runs for ten minutes", queued: 6, matched: 5,
			handler: func(context.Context, *sdk.Task[[]byte]) error { time.Sleep(10 * time.Minute); return nil },
		},
		{name: "cancelled before its time", item: sdk.Item{In: time.Hour}, cancel: true, handler: quick, queued: 3, matched: 3},
	} {
		for _, matched := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s matched=%v", c.name, matched), func(t *testing.T) {
				want := c.queued
				if matched {
					want = c.matched
				}
				inRig(t, drivers{}, 1, func(n *Config) { remote(n); n.NoMatch = !matched }, func(r *rig) {
					r.lambda(admin.Lambda{Name: "mail", BackoffMin: time.Second, BackoffMax: time.Second})
					r.work(r.nodes[0], "mail", c.handler)
					time.Sleep(time.Minute)
					synctest.Wait()
					r.tally.take()
					c.item.Lambda = "mail"
					id := r.schedule(c.item)
					if c.cancel {
						if _, err := r.client.Cancel(r.ctx, id); err != nil {
							t.Fatal(err)
						}
					}
					time.Sleep(15 * time.Minute)
					synctest.Wait()
					got := r.tally.take()
					if got.tasks != want || got.units != want {
						t.Errorf("%d writes and %d units, want %d of both", got.tasks, got.units, want)
					}
					if beats := 15 * time.Minute / (task.ClaimTimeout * 3 / 8); got.controls > int(beats)+10 {
						t.Errorf("%d writes of leases in 15 minutes, want one for each heartbeat", got.controls)
					}
					info, err := r.client.Get(r.ctx, id)
					if err != nil || !info.State.IsEnd() {
						t.Errorf("%s, %v", info.State, err)
					}
				})
			})
		}
	}
}

// TestHeartbeatsCostPerWorker has a worker run a hundred tasks for ten minutes: each heartbeat writes its
// lease, and the rows of the tasks are not written and hardly read.
func TestHeartbeatsCostPerWorker(t *testing.T) {
	inRig(t, drivers{}, 1, remote, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail", Timeout: time.Hour})
		r.work(r.nodes[0], "mail", func(ctx context.Context, _ *sdk.Task[[]byte]) error {
			<-ctx.Done()
			return ctx.Err()
		})
		const n = 100
		for range n {
			r.schedule(sdk.Item{Lambda: "mail"})
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		r.tally.take()
		const minutes = 10
		time.Sleep(minutes * time.Minute)
		synctest.Wait()
		got := r.tally.take()
		if beats := minutes * 16; got.tasks != 0 || got.controls > beats+1 {
			t.Errorf("%d writes of tasks and %d of leases, want 0 and %d", got.tasks, got.controls, beats)
		}
		// The HSC reads them every five minutes, the scheduler at intervals that double, a scan from the head
		// now and then, and a look for what is held back by nothing; lambdas, leases, gates and quotas are read too.
		if most := n*(minutes/5+1+4+4+1) + minutes*(60+80); got.reads+got.rows > most {
			t.Errorf("%d reads and %d rows of scans, want %d at most", got.reads, got.rows, most)
		}
	})
}

// TestAnIdlePartitionReadsLittle counts the scans of an idle partition: one consistent read per scan.
func TestAnIdlePartitionReadsLittle(t *testing.T) {
	inRig(t, drivers{}, 1, remote, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail", Priorities: []string{"only"}, Shards: 4})
		time.Sleep(time.Minute)
		synctest.Wait()
		r.tally.take()
		const minutes, partitions = 10, 4
		time.Sleep(minutes * time.Minute)
		synctest.Wait()
		got := r.tally.take()
		units := float64(got.scans) / (minutes * 60) / partitions
		t.Logf("%d scans, %d other reads, %d writes: %.3f read units/s for each partition", got.scans, got.reads, got.tasks+got.controls, units)
		if units > 0.2 || got.tasks+got.controls != 0 {
			t.Errorf("%.3f read units/s for each partition, want 0.2 at most; %d writes", units, got.tasks+got.controls)
		}
	})
}

package node

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// A lambda whose tasks all fail is paused by its breaker, probed at a small pace, and goes on when probes
// succeed; that of a lambda beside it is not touched.
func TestABreakerPausesProbesAndCloses(t *testing.T) {
	for name, c := range map[string]struct {
		nodes  int
		config func(*Config)
	}{
		"alone":       {1, nil},
		"two, shared": {2, func(c *Config) { remote(c); c.Shared = true }},
		"no match":    {1, func(c *Config) { c.NoMatch = true }},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, drivers{}, c.nodes, c.config, func(r *rig) {
				r.lambda(admin.Lambda{Name: "mail", BackoffMin: time.Second, BackoffMax: 2 * time.Second, MaxAttempts: 1000, Breaker: admin.Breaker{Failures: 0.5}})
				r.lambda(admin.Lambda{Name: "sms", Breaker: admin.Breaker{Failures: 0.5}})
				var broken atomic.Bool
				var runs, beside atomic.Int64
				broken.Store(true)
				for _, p := range r.nodes {
					r.work(p, "mail", func(context.Context, *sdk.Task[[]byte]) error {
						runs.Add(1)
						if broken.Load() {
							return errors.New("downstream is down")
						}
						return nil
					}, sdk.Slots(10))
					r.work(p, "sms", func(context.Context, *sdk.Task[[]byte]) error {
						beside.Add(1)
						return nil
					}, sdk.Slots(10))
				}
				client := r.dial(r.nodes[0].transport)
				scheduleFor := func(d time.Duration) (n int64) {
					for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
						for _, lambda := range []string{"mail", "sms"} {
							result, err := client.Schedule(r.ctx, sdk.Item{Lambda: lambda})
							if err != nil {
								t.Fatal(err)
							}
							r.book.accepted(result.ID)
						}
						n++
					}
					return n
				}
				count := scheduleFor(20 * time.Second) // 100 tasks
				if all, err := admin.New(client).Gates.List(r.ctx, "", admin.GateListOptions{}); err != nil || len(all) != 1 || all[0].Lambda != "mail" || all[0].Owner != "circuit breaker" {
					t.Fatalf("gates %+v, %v", all, err)
				}
				before := runs.Load()
				count += scheduleFor(8 * time.Second)
				if n := runs.Load() - before; n > 0 {
					t.Errorf("%d attempts began while the breaker pauses", n)
				}
				count += scheduleFor(5 * time.Minute)
				if n := runs.Load() - before; n < 10 || n > 60 {
					t.Errorf("%d probes in 5 min with pauses of 30 s and more, want 5 to 10 after each", n)
				}
				if n := beside.Load(); n < count-5 {
					t.Errorf("%d of %d tasks of the lambda beside it started", n, count)
				}
				broken.Store(false)
				time.Sleep(10 * time.Minute)
				if all, err := admin.New(client).Gates.List(r.ctx, "", admin.GateListOptions{}); err != nil || len(all) != 0 {
					t.Errorf("gates %+v, %v, want none", all, err)
				}
			})
		})
	}
}

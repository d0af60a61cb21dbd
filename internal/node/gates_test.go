package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/feature/gate"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// setGate stores a gate; the nodes learn of it by themselves.
func (r *rig) setGate(lambda string, g *hold.Gate) {
	r.Helper()
	l, err := r.nodes[0].node.catalog.Lambda(lambda)
	if err != nil {
		r.Fatal(err)
	}
	g.Lambda, g.Ref = lambda, l.Ref
	row, err := gate.AsRows.Encode(g)
	if err != nil {
		r.Fatal(err)
	}
	if err := r.nodes[0].node.store.PutControl(r.ctx, row); err != nil {
		r.Fatal(err)
	}
	g.Version++
}

// TestADropSaysWhichGate drops tasks, and wants each to say so.
func TestADropSaysWhichGate(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		r.setGate("mail", &hold.Gate{ID: "8", Action: hold.Drop, Reason: "sent twice", Owner: "me"})
		time.Sleep(2 * time.Second)
		ids := []sdk.ID{
			r.schedule(sdk.Item{Lambda: "mail"}), r.schedule(sdk.Item{Lambda: "mail", Key: "k", In: time.Second}),
			r.schedule(sdk.Item{Lambda: "mail", In: 20 * time.Second}),
		}
		later := r.schedule(sdk.Item{Lambda: "mail", In: time.Hour})
		time.Sleep(25 * time.Second)
		for i, id := range ids {
			info, err := r.client.Get(r.ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			if info.State != sdk.StateDropped || len(info.Attempts) != 1 || !strings.Contains(info.Attempts[0].Error, `gate 8 "sent twice"`) {
				t.Errorf("task %d is %s: %+v", i, info.State, info.Attempts)
			}
		}
		if info, err := r.client.Get(r.ctx, later); err != nil || info.State != sdk.StateScheduled {
			t.Errorf("a task that is not due is %s, %v", info.State, err)
		}
		time.Sleep(time.Hour)
		r.settled(time.Minute)
	})
}

// TestAPaceIsForHigherPrioritiesFirst wants those of a higher priority to go first that a gate held, or,
// where priorities have weights, some of each.
func TestAPaceIsForHigherPrioritiesFirst(t *testing.T) {
	const pace, count, burst = 50, 200, 50/2 + 1
	for name, c := range map[string]struct {
		weights map[string]int
		want    int // of low that start before the last one of high, besides the burst
	}{
		"strict":  {nil, pace / 5},
		"weights": {map[string]int{"high": 4, "low": 1}, count/4 + pace/5},
	} {
		t.Run(name, func(t *testing.T) {
			inRig(t, drivers{}, 1, nil, func(r *rig) {
				r.lambda(admin.Lambda{Name: "mail", Priorities: []string{"high", "low"}, PriorityWeights: c.weights})
				g, err := r.admin().Gates.Create(r.ctx, admin.Gate{Action: admin.GatePause, Lambda: "mail", Reason: "db"})
				if err != nil {
					t.Fatal(err)
				}
				var mu sync.Mutex
				var order []string
				r.work(r.nodes[0], "mail", func(_ context.Context, task *sdk.Task[[]byte]) error {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, task.Priority)
					return nil
				}, sdk.Slots(200))
				for range count {
					for _, priority := range []string{"low", "high"} {
						one, err := r.client.Schedule(r.ctx, sdk.Item{Lambda: "mail", Priority: priority})
						if err != nil {
							t.Fatal(err)
						}
						r.book.accepted(one.ID)
					}
				}
				if _, err = r.admin().Gates.Resume(r.ctx, g.ID, admin.GateResumeOptions{Pace: pace}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				mu.Lock()
				started := slices.Clone(order)
				mu.Unlock()
				low, before := 0, 0
				for _, priority := range started {
					if priority == "low" {
						low++
					} else {
						before = low
					}
				}
				if len(started) != 2*count || before < c.want-burst-pace/5 || before > c.want+burst {
					t.Errorf("%d started, %d of low before the last one of high, want about %d", len(started), before, c.want)
				}
				r.settled(time.Minute)
			})
		})
	}
}

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

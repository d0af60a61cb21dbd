package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
)

// A task that is due and has no worker on any server says so.
func TestATaskSaysThatItHasNoWorker(t *testing.T) {
	for _, shared := range []bool{false, true} {
		inRig(t, drivers{}, 1, func(c *Config) { c.Shared = shared }, func(r *rig) {
			r.lambda(admin.Lambda{Name: "mail"})
			r.lambda(admin.Lambda{Name: "pay"})
			wants := func(id sdk.ID, want string) {
				r.Helper()
				synctest.Wait()
				info, err := r.client.Get(r.ctx, id)
				if err != nil || info.WaitsFor.Reason != want {
					r.Errorf("waits for %+v (shared: %v), want %q: %v", info.WaitsFor, shared, want, err)
				}
			}
			due, later := r.schedule(sdk.Item{Lambda: "mail"}), r.schedule(sdk.Item{Lambda: "mail", In: time.Hour})
			wants(due, "no worker")
			wants(later, "")
			if _, err := r.admin().Gates.Create(r.ctx, admin.Gate{Action: admin.GatePause, Lambda: "pay", Reason: "x"}); err != nil {
				r.Fatal(err)
			}
			r.work(r.nodes[0], "pay", func(context.Context, *sdk.Task[[]byte]) error { return nil })
			time.Sleep(2 * time.Second)
			wants(due, "no worker")
			// a worker without a stream has a lease
			if _, err := r.nodes[0].node.leases.Open(r.ctx, "polls", "", 15*time.Second, "", []string{"mail"}); err != nil {
				r.Fatal(err)
			}
			time.Sleep(2 * time.Second)
			wants(due, "")
			time.Sleep(20 * time.Second)
			wants(due, "no worker")
			stays := make(chan struct{})
			defer close(stays)
			r.work(r.nodes[0], "mail", func(context.Context, *sdk.Task[[]byte]) error {
				<-stays
				return nil
			})
			time.Sleep(5 * time.Second)
			wants(due, "") // it runs
			wants(r.schedule(sdk.Item{Lambda: "mail"}), "")
		})
	}
}

// slowLeases is a store that takes long to read all leases.
type slowLeases struct {
	store.Driver

	slow atomic.Bool
}

func (d *slowLeases) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	if kind == lease.Kind && name == "" && d.slow.Load() {
		time.Sleep(leasesWithin / 2)
	}
	return d.Driver.Controls(ctx, kind, name)
}

// Those who look at tasks that wait do not queue up behind each other's reads of the leases.
func TestALookAtTheLeasesHoldsUpNoOther(t *testing.T) {
	var d *slowLeases
	over := func(under store.Driver) store.Driver {
		d = &slowLeases{Driver: under}
		return d
	}
	inRig(t, drivers{over: over}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		id := r.schedule(sdk.Item{Lambda: "mail"})
		time.Sleep(2 * leasesKnownFor)
		d.slow.Store(true)
		began := time.Now()
		var looks sync.WaitGroup
		for range 8 {
			looks.Go(func() {
				if info, err := r.client.Get(r.ctx, id); err != nil || info.WaitsFor.Reason != "no worker" {
					t.Errorf("waits for %+v: %v", info.WaitsFor, err)
				}
			})
		}
		looks.Wait()
		if took := time.Since(began); took > leasesWithin {
			t.Errorf("8 looks took %v together", took)
		}
		d.slow.Store(false)
	})
}

// Where the worker is on another server, a task is not said to have none, and looks at tasks read the leases
// once in a while.
func TestAWorkerOfAnotherServerIsKnown(t *testing.T) {
	var d *countedLeases
	over := func(under store.Driver) store.Driver {
		d = &countedLeases{Driver: under}
		return d
	}
	inRig(t, drivers{over: over}, 2, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		stays := make(chan struct{})
		defer close(stays)
		r.work(r.nodes[1], "mail", func(context.Context, *sdk.Task[[]byte]) error {
			<-stays
			return nil
		}, sdk.Slots(1))
		time.Sleep(5 * time.Second)
		r.schedule(sdk.Item{Lambda: "mail"})
		waits := r.schedule(sdk.Item{Lambda: "mail"})
		time.Sleep(leasesKnownFor)
		before := d.reads.Load()
		for range 100 {
			if info, err := r.client.Get(r.ctx, waits); err != nil || info.WaitsFor.Reason == "no worker" {
				r.Fatalf("waits for %+v: %v", info.WaitsFor, err)
			}
		}
		if reads := d.reads.Load() - before; reads < 1 || reads > 2 {
			r.Errorf("100 looks read the leases %d times", reads)
		}
	})
}

// countedLeases is a store that counts the reads of all leases.
type countedLeases struct {
	store.Driver

	reads atomic.Int64
}

func (d *countedLeases) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	if kind == lease.Kind && name == "" {
		d.reads.Add(1)
	}
	return d.Driver.Controls(ctx, kind, name)
}

// heldTasks returns kinesin_held_tasks of a process by lambda and reason.
func (p *process) heldTasks(t *testing.T) map[string]float64 {
	t.Helper()
	all, err := p.node.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	held := map[string]float64{}
	for _, family := range all {
		for _, m := range family.GetMetric() {
			if family.GetName() == "kinesin_held_tasks" {
				held[fmt.Sprintf("%s: %s", m.GetLabel()[0].GetValue(), m.GetLabel()[1].GetValue())] = m.GetGauge().GetValue()
			}
		}
	}
	return held
}

// Each brake holds tasks of a lambda of its own, and kinesin_held_tasks has a series of it, with how many
// these are; and none of a brake that the lambda does not have.
func TestHeldTasksAreCountedByReason(t *testing.T) {
	const tasks, depth = 50, 20
	inRig(t, drivers{}, 1, func(c *Config) { c.QueueDepthMax = depth }, func(r *rig) {
		for _, l := range []admin.Lambda{
			{Name: "gated"},
			{Name: "paced"},
			{Name: "keyed", LimitKeyConcurrency: 3},
			{Name: "retried", RetryShare: 0.01, BackoffMin: time.Second, BackoffMax: time.Second, MaxAttempts: 1000},
			{Name: "full"},
			{Name: "workerless"},
		} {
			r.lambda(l)
		}
		if _, err := r.admin().Gates.Create(r.ctx, admin.Gate{Action: admin.GatePause, Lambda: "gated", Reason: "x"}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.admin().Quotas.Set(r.ctx, admin.Quota{Lambda: "paced", Concurrency: 4}, admin.QuotaSetOptions{}); err != nil {
			t.Fatal(err)
		}
		r.work(r.nodes[0], "retried", func(context.Context, *sdk.Task[[]byte]) error { return errors.New("down") }, sdk.Slots(tasks))
		stays := make(chan struct{})
		defer close(stays)
		for _, lambda := range []string{"gated", "paced", "keyed", "full"} {
			r.work(r.nodes[0], lambda, func(context.Context, *sdk.Task[[]byte]) error {
				<-stays
				return nil
			}, sdk.Slots(1))
		}
		time.Sleep(5 * time.Second)
		for _, lambda := range []string{"gated", "paced", "keyed", "retried", "full", "workerless"} {
			for range tasks {
				if _, err := r.client.Schedule(r.ctx, sdk.Item{Lambda: lambda, LimitKey: "acme", In: time.Minute}); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(90 * time.Second)
		want := map[string][2]float64{ // at least, at most
			"gated: gate":           {tasks, tasks},
			"paced: quota":          {tasks - 4, tasks - 4},
			"keyed: key":            {tasks - 3, tasks - 3},
			"retried: retry budget": {tasks - 15, tasks},
			"full: queue full":      {tasks - depth - 3, tasks - depth}, // some run, or wait in the worker
			"workerless: no worker": {tasks, tasks},
		}
		for _, lambda := range []string{"gated", "paced", "keyed", "retried", "workerless"} {
			want[lambda+": queue full"] = [2]float64{}
		}
		for _, lambda := range []string{"gated", "paced", "keyed", "retried", "full"} {
			want[lambda+": no worker"] = [2]float64{}
		}
		for _, lambda := range []string{"gated", "paced", "keyed", "retried", "full", "workerless"} {
			want[lambda+": unexplained"] = [2]float64{}
		}
		held := r.nodes[0].heldTasks(t)
		if len(held) != len(want) {
			t.Errorf("series %v, want %v", held, want)
		}
		for series, w := range want {
			if n, ok := held[series]; !ok || n < w[0] || n > w[1] {
				t.Errorf("%s: %v (%v), want %v", series, n, ok, w)
			}
		}
	})
}

// TestACancelReachesAWorkerOfAnotherProcess cancels a running task at one process while its worker is
// connected to another: the handler learns of it with the worker's next heartbeat.
func TestACancelReachesAWorkerOfAnotherProcess(t *testing.T) {
	for name, roles := range map[string][]string{"all roles": nil, "nothing but the API": {RoleInbound}} {
		t.Run(name, func(t *testing.T) {
			first := true
			config := func(c *Config) {
				remote(c)
				if first {
					c.Roles, first = roles, false
				}
			}
			inRig(t, drivers{}, 2, config, func(r *rig) {
				r.lambda(admin.Lambda{Name: "mail", Timeout: time.Hour})
				told := make(chan time.Time, 1)
				r.work(r.nodes[1], "mail", func(ctx context.Context, _ *sdk.Task[[]byte]) error {
					<-ctx.Done()
					if errors.Is(context.Cause(ctx), sdk.ErrCancelled) {
						told <- time.Now()
					}
					return ctx.Err()
				})
				id := r.schedule(sdk.Item{Lambda: "mail"})
				time.Sleep(40 * time.Second) // the worker's process knows by heart that it runs
				if _, err := r.client.Cancel(r.ctx, id); err != nil {
					t.Fatal(err)
				}
				asked := time.Now()
				if took := (<-told).Sub(asked); took > 4*time.Second {
					t.Errorf("told after %v", took)
				}
				r.settled(time.Minute)
			})
		})
	}
}

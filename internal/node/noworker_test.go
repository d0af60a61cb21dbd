package node

import (
	"context"
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

package node

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// A receiver reports at another server than the one at which the worker is: the attempt ends at the worker within
// 10 s, however long it has run, and its slot is free.
func TestAReportAtAnotherServer(t *testing.T) {
	inRig(t, drivers{}, 2, func(c *Config) { c.Shared = true }, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		began, ended := make(chan sdk.ID, 2), make(chan struct{}, 2)
		var worker atomic.Pointer[string]
		held := sdk.Hooks{LeaseHeld: func(id string, _ time.Duration) { worker.Store(&id) }}
		r.work(r.nodes[0], "mail", func(ctx context.Context, t *sdk.Task[[]byte]) error {
			began <- t.ID
			<-ctx.Done()
			ended <- struct{}{}
			return ctx.Err()
		}, sdk.Slots(1), sdk.Observe(held))
		first, second := r.schedule(sdk.Item{Lambda: "mail"}), r.schedule(sdk.Item{Lambda: "mail", In: time.Minute})
		id := <-began
		time.Sleep(2 * time.Minute) // no heartbeat has a reason to read its row

		other, ctx := r.nodes[1].node, access.With(r.ctx, access.Caller{Identity: access.Anonymous()})
		token, err := other.SealCallback(ctx, *worker.Load(), string(id), 1)
		if err != nil {
			t.Fatal(err)
		}
		c, err := other.OpenCallback(ctx, token)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now()
		if err := other.Report(ctx, c, &kinesinv1.Result{Outcome: "success"}); err != nil {
			t.Fatal(err)
		}
		<-ended
		if next := <-began; id != first || next != second || time.Since(at) > 10*time.Second {
			t.Errorf("%s ran, and %s %v after its report", id, next, time.Since(at))
		}
		if got, err := r.client.Get(r.ctx, first); err != nil || got.State != sdk.StateSuccess || len(got.Attempts) != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

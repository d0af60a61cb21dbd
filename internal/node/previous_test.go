package node

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// A server is away for longer than the leases of its workers, which have ended their attempts by the time it
// is back. It accepts their results then: no task runs again.
func TestWhatEndedWhileTheServerWasAwayIsTaken(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		const tasks, workers, slots = 200, 2, 10
		r.lambda(admin.Lambda{Name: "brief"})
		way := &cable{RoundTripper: r.nodes[0].transport}
		var began atomic.Int64
		for range workers {
			r.workOver(way, "brief", func(ctx context.Context, _ *sdk.Task[[]byte]) error {
				began.Add(1)
				select {
				case <-time.After(500 * time.Millisecond):
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}, sdk.Slots(slots))
		}
		for range tasks {
			r.schedule(sdk.Item{Lambda: "brief"})
		}
		time.Sleep(1250 * time.Millisecond)
		way.set(true)
		if n := began.Load(); n == 0 || n == tasks {
			t.Fatalf("%d of %d tasks began before the server went away", n, tasks)
		}
		r.nodes[0].stop()
		time.Sleep(20 * time.Second)
		r.nodes[0] = r.start(drivers{}, []string{"node-0"}, 0, nil)
		r.client = r.dial(r.nodes[0].transport)
		way.RoundTripper = r.nodes[0].transport
		way.set(false)

		r.settled(5 * time.Second) // nobody waits for the end of a lease
		if runs := r.book.check(t, 1); runs != tasks {
			t.Errorf("%d runs of %d tasks", runs, tasks)
		}
		if n := r.lost(); n != 0 || r.book.deaths != 0 {
			t.Errorf("%d tasks lost their worker, %d workers ended", n, r.book.deaths)
		}
	})
}

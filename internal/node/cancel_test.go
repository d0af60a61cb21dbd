package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

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

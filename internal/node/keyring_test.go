package node

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/feature/keyring"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// keyOf gives every second task a key.
func keyOf(i int) string {
	if i%2 == 0 {
		return ""
	}
	return fmt.Sprint("key ", i)
}

// TestTheFleetThroughARotation runs two servers and their workers over DynamoDB and SQS through two
// rotations. All tasks run once, each under the id that it got, and both servers know and list all ids under
// that form.
func TestTheFleetThroughARotation(t *testing.T) {
	var service cloud
	inRig(t, service.drivers(t), 2, remote, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail", Priorities: []string{"normal"}})
		var mu sync.Mutex
		ran := map[sdk.ID]int{}
		for _, p := range r.nodes {
			r.work(p, "mail", func(_ context.Context, t *sdk.Task[[]byte]) error {
				mu.Lock()
				defer mu.Unlock()
				ran[t.ID]++
				return nil
			})
		}
		clients := []*sdk.Client{r.client, r.dial(r.nodes[1].transport)}
		var ids []sdk.ID
		forms := map[string]int{}
		step := func(i int) {
			result, err := clients[i%2].Schedule(r.ctx, sdk.Item{Lambda: "mail", In: time.Duration(i%3) * 15 * time.Second, Key: keyOf(i)})
			if err != nil {
				r.Fatal(err)
			}
			r.book.accepted(result.ID)
			ids = append(ids, result.ID)
			forms[string(result.ID[:2])]++
			for _, client := range clients {
				for _, id := range []sdk.ID{ids[0], ids[len(ids)/2], result.ID} {
					if got, err := client.Get(r.ctx, id); err != nil {
						r.Fatalf("step %d: %v of %s: %v", i, got, id, err)
					}
				}
			}
			time.Sleep(5 * time.Second)
		}
		const steps = int((keyring.Overlap + time.Minute) / (5 * time.Second))
		for i := range 3 * steps {
			if i == steps || i == 2*steps {
				if _, _, err := admin.New(clients[i/steps%2]).Keys.Rotate(r.ctx); err != nil {
					r.Fatal(err)
				}
			}
			step(i)
		}
		time.Sleep(2 * time.Minute)
		if forms["k1"] < steps/2 || forms["k2"] < steps/2 || forms["k1"]+forms["k2"]+forms["k3"] != len(ids) {
			r.Errorf("%v", forms)
		}
		for _, client := range clients {
			keys, err := admin.New(client).Keys.List(r.ctx)
			if err != nil || len(keys) != 3 || keys[2].State != keyring.StateSealing || keys[0].State != keyring.StateRetired {
				r.Errorf("%+v, %v", keys, err)
			}
			listed := map[sdk.ID]bool{}
			for info, err := range client.List(r.ctx, sdk.ListQuery{Lambda: "mail"}) {
				if err != nil {
					r.Fatal(err)
				}
				listed[info.ID] = true
			}
			for _, id := range ids {
				if mu.Lock(); !listed[id] || ran[id] != 1 {
					r.Errorf("%s: listed %v, ran %d times", id, listed[id], ran[id])
				}
				mu.Unlock()
			}
			for part := range slices.Chunk(ids, 500) {
				if _, err := client.GetMany(r.ctx, part); err != nil {
					r.Error(err)
				}
			}
		}
	})
}

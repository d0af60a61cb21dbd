package cost

import (
	"math"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/harness"
)

// A step of a chain costs at most a write unit more than a task, and a member of a group at most one and its
// share of the group's own rows. Both cost less: a step what a task costs, a member what one with a key does.
func TestWriteUnitsOfChainsAndGroups(t *testing.T) {
	t.Parallel()
	for way, queued := range map[string]bool{"matched": false, "through the queue": true} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, options{single: true, queued: queued})
			s.Lambda(admin.Lambda{Name: "managed"})
			harness.Work(s.Node, "managed", atOnce, sdk.Slots(2*n))
			of := map[bool]float64{false: 4, true: 5}[queued] // units of a task
			payload := make([]byte, 100)

			step := func(then ...sdk.Item) sdk.Item { return sdk.Item{Lambda: "managed", Payload: payload, Then: then} }
			const steps = 3
			perTask(t, "step of a chain: write units", s.least(t, of*steps*n, func() {
				s.Succeed(s.Schedule(items(n, step(step(step())))...))
			}), steps*n, of)

			either := step()
			either.Then, either.Else, either.Finally = []sdk.Item{step()}, []sdk.Item{step()}, []sdk.Item{step()}
			perTask(t, "task of a chain with then, else and finally: write units", s.least(t, of*3*n, func() {
				s.Succeed(s.Schedule(items(n, either)...))
			}), 3*n, of)

			before := s.now()
			units := s.least(t, of*(n+1), func() {
				g, err := sdk.Group(items(n, sdk.Item{Lambda: "managed", In: 2 * time.Second})...).Then(sdk.Item{Lambda: "managed"}).Schedule(t.Context(), s.Client)
				if err != nil {
					t.Fatal(err)
				}
				for g.State != "done" {
					time.Sleep(100 * time.Millisecond)
					if g, err = s.Client.GetGroup(t.Context(), g.ID); err != nil {
						t.Fatal(err)
					}
				}
			})
			perTask(t, "member of a group, and what follows it: write units", units, n+1, of+1)
			perTask(t, "rows of a group itself: write units", control(s.now().since(before).writes), 3, 12) // of three tries at most, and of leases
		})
	}
}

// least is the least of what a few loads wrote of tasks; enough ends it.
func (s *site) least(t *testing.T, enough float64, load func()) float64 {
	t.Helper()
	least := math.Inf(1)
	for range 3 {
		before := s.quiet(t)
		load()
		if least = min(least, tasks(s.quiet(t).since(before).writes)); least <= enough {
			break
		}
	}
	return least
}

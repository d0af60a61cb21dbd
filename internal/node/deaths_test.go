package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// Each server tells how many tasks died on all of them, by lambda, and of no other end.
func TestEachServerTellsWhatDied(t *testing.T) {
	inRig(t, drivers{}, 2, func(c *Config) { c.Shared = true }, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail", MaxAttempts: 1})
		r.lambda(admin.Lambda{Name: "calm"})
		for _, name := range []string{"mail", "calm"} {
			for _, p := range r.nodes {
				r.work(p, name, func(_ context.Context, task *sdk.Task[[]byte]) error {
					switch {
					case name == "calm":
						return nil
					case string(task.Payload) == "fatal":
						return sdk.Fatal(errors.New("no"))
					}
					return errors.New("no")
				})
			}
		}
		time.Sleep(2 * time.Second)
		for range 61 {
			r.schedule(sdk.Item{Lambda: "mail"})
		}
		r.schedule(sdk.Item{Lambda: "mail", Payload: []byte("fatal")})
		r.schedule(sdk.Item{Lambda: "calm"})
		r.settled(time.Minute)
		time.Sleep(time.Minute + time.Second) // each has stored what it has counted
		for i, p := range r.nodes {
			all, err := admin.New(r.dial(p.transport)).Lambdas.Stats(r.ctx, "")
			if err != nil || len(all) != 2 {
				r.Fatal(all, err)
			}
			for _, s := range all {
				want := int64(0)
				if s.Lambda == "mail" {
					want = 61
				}
				if s.DeadHour != want || s.DeadDay != want {
					r.Errorf("node %d: %d tasks of %s died in the hour, %d in the day, want %d", i, s.DeadHour, s.Lambda, s.DeadDay, want)
				}
			}
		}
		time.Sleep(3 * time.Hour)
		if all, err := r.admin().Lambdas.Stats(r.ctx, "mail"); err != nil || all[0].DeadHour != 0 || all[0].DeadDay != 61 {
			r.Errorf("three hours later: %+v, %v", all, err)
		}
	})
}

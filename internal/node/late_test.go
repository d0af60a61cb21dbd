package node

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/feature/objective"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// What waits for longer than an objective allows is late from then on, whatever holds it, and counts once.
func TestWhatWaitsLateCountsOnce(t *testing.T) {
	for _, nodes := range []int{1, 2} {
		inRig(t, drivers{}, nodes, func(c *Config) { c.Shared = nodes > 1 }, func(r *rig) {
			for _, name := range []string{"mail", "held"} {
				r.lambda(admin.Lambda{Name: name, Shards: 4})
				if _, err := r.admin().Objectives.Set(r.ctx, admin.Objective{Lambda: name, Within: 30 * time.Second, Percent: 99}); err != nil {
					r.Fatal(err)
				}
			}
			if _, err := r.admin().Gates.Create(r.ctx, admin.Gate{Action: admin.GatePause, Lambda: "held", Reason: "x"}); err != nil {
				r.Fatal(err)
			}
			want := func(when, lambda string, started, good, waiting int64) {
				r.Helper()
				for _, p := range r.nodes { // each server tells the same
					all, err := admin.New(r.dial(p.transport)).Objectives.List(r.ctx, lambda)
					if err != nil || len(all) != 1 {
						r.Fatal(all, err)
					}
					if s := all[0]; s.Started != started || s.Good != good || s.Waiting != waiting || s.Burns[0].Started != started || (s.Attained < 100) != (started > good) {
						r.Errorf("%d nodes, %s, %s: %+v, want %d started, %d in time, %d waiting", nodes, when, lambda, s, started, good, waiting)
					}
				}
			}
			schedule := func(n int, lambda string, in time.Duration) (last sdk.ID) {
				r.Helper()
				for range n {
					last = r.schedule(sdk.Item{Lambda: lambda, In: in})
				}
				return last
			}
			schedule(20, "mail", 0)
			schedule(5, "held", 0)
			schedule(3, "mail", time.Hour) // not due
			time.Sleep(29 * time.Second)
			want("not late yet", "mail", 0, 0, 0)
			time.Sleep(objective.KeepEvery + 2*time.Second) // each server has looked
			want("without a worker", "mail", 20, 0, 20)
			want("behind a gate", "held", 5, 0, 5)
			page := httptest.NewRecorder()
			Trusting(r.nodes[0].node.Handler()).ServeHTTP(page, httptest.NewRequestWithContext(r.ctx, http.MethodGet, "/metrics", nil))
			for _, series := range []string{`kinesin_objective_waiting_tasks{lambda="mail"} 20`, `kinesin_objective_burn{lambda="mail",over="1h"} 100`} {
				if !strings.Contains(page.Body.String(), "\n"+series) {
					t.Errorf("no series %s", series)
				}
			}
			cancelled := schedule(1, "mail", 0)
			time.Sleep(30*time.Second + objective.KeepEvery)
			want("one more", "mail", 21, 0, 21)
			if _, err := r.client.Cancel(r.ctx, cancelled); err != nil {
				r.Fatal(err)
			}
			time.Sleep(objective.KeepEvery)
			want("one cancelled", "mail", 20, 0, 20)
			hold := make(chan struct{})
			r.work(r.nodes[0], "mail", func(context.Context, *sdk.Task[[]byte]) error {
				<-hold
				return nil
			})
			time.Sleep(objective.KeepEvery + time.Second)
			want("all run", "mail", 20, 0, 0)
			close(hold)
			time.Sleep(objective.KeepEvery + time.Second)
			want("all ran", "mail", 20, 0, 0)
			schedule(2, "mail", 0)
			time.Sleep(time.Second)
			want("two in time", "mail", 22, 2, 0)
		})
	}
}

// More late tasks than one look reads are counted all the same, where the store knows how many there are.
func TestVeryManyWaitLate(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail", Shards: 1})
		if _, err := r.admin().Objectives.Set(r.ctx, admin.Objective{Lambda: "mail", Within: time.Second, Percent: 99}); err != nil {
			r.Fatal(err)
		}
		if _, err := r.admin().Gates.Create(r.ctx, admin.Gate{Action: admin.GatePause, Lambda: "mail", Reason: "x"}); err != nil {
			r.Fatal(err)
		}
		const batches, each = 25, 1000
		for range batches {
			items := make([]sdk.Item, each)
			for i := range items {
				items[i] = sdk.Item{Lambda: "mail", In: time.Duration(i) * time.Millisecond}
			}
			if _, err := r.client.ScheduleMany(r.ctx, items); err != nil {
				r.Fatal(err)
			}
		}
		time.Sleep(3 * time.Second)
		all, err := r.admin().Objectives.List(r.ctx, "mail")
		if err != nil || len(all) != 1 || all[0].Waiting != batches*each || all[0].Attained != 0 {
			r.Errorf("%+v, %v, want %d waiting", all, err, batches*each)
		}
	})
}

// TestWhatWaitsBehindLongTasksStartsWhenTheyEnd keeps slots busy for longer than a message in memory is
// valid.
func TestWhatWaitsBehindLongTasksStartsWhenTheyEnd(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail", Timeout: time.Hour})
		var mu sync.Mutex
		var free time.Time
		var starts []time.Time
		r.work(r.nodes[0], "mail", func(_ context.Context, k *sdk.Task[[]byte]) error {
			mu.Lock()
			defer mu.Unlock()
			if len(k.Args) > 0 && k.Args[0] == 'l' {
				mu.Unlock()
				time.Sleep(12 * time.Minute)
				mu.Lock()
				free = time.Now()
				return nil
			}
			starts = append(starts, time.Now())
			return nil
		}, sdk.Slots(4))
		time.Sleep(time.Second)
		for range 4 {
			r.schedule(sdk.Item{Lambda: "mail", In: time.Minute, Payload: []byte("long")})
		}
		for i := range 20 {
			r.schedule(sdk.Item{Lambda: "mail", In: 61*time.Second + time.Duration(i)*20*time.Second, Payload: []byte("short")})
		}
		r.settled(time.Hour)
		if len(starts) != 20 {
			t.Errorf("%d starts, want 20", len(starts))
		}
		for _, at := range starts {
			if late := at.Sub(free); late > time.Second {
				t.Errorf("started %v after the slots were free", late)
			}
		}
	})
}

package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// live returns the live figures of the lambda mail.
func (r *rig) live(count bool) *admin.LambdaStats {
	r.Helper()
	info, err := r.admin().Lambdas.Live(r.ctx, "mail", admin.LambdaLiveOptions{Count: count})
	if err != nil || info.Live == nil {
		r.Fatal(info, err)
	}
	return info.Live
}

func heldFor(s *admin.LambdaStats, reason string) admin.HeldBy {
	if i := slices.IndexFunc(s.HeldBy, func(h admin.HeldBy) bool { return h.Reason == reason }); i >= 0 {
		return s.HeldBy[i]
	}
	return admin.HeldBy{}
}

func (r *rig) scheduleNow(lambda string, count int) {
	r.Helper()
	results, err := r.client.ScheduleMany(r.ctx, itemsOf(lambda, count))
	if err != nil {
		r.Fatal(err)
	}
	for i := range results {
		r.book.accepted(results[i].ID)
	}
}

// Live figures tell what holds tasks back, one after the other: nobody runs them, their quota, a gate; and
// how many were refused.
func TestLiveFiguresTellWhatHoldsTasksBack(t *testing.T) {
	const rate = 10
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%v", shared), func(t *testing.T) {
			inRig(t, drivers{}, 1, func(c *Config) { c.Shared = shared }, func(r *rig) {
				r.lambda(admin.Lambda{Name: "mail", BackoffMin: time.Second, BackoffMax: 2 * time.Second})
				if s := r.live(true); len(s.HeldBy) != 0 || s.Workers != 0 || s.Due != 0 || len(s.Priorities) != 3 || s.Priorities[0].Queued != 0 {
					t.Errorf("of a new lambda: %+v", s)
				}
				if _, err := r.admin().Quotas.Set(r.ctx, admin.Quota{Lambda: "mail", Rate: rate}, admin.QuotaSetOptions{}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				r.scheduleNow("mail", 600)
				time.Sleep(5 * time.Second)
				s := r.live(true)
				if heldFor(s, "no worker").Text == "" || s.Due != 600 || !s.DueExact || s.OldestDue.IsZero() {
					t.Errorf("without workers: %+v", s)
				}
				failing := errors.New("some")
				r.work(r.nodes[0], "mail", func(_ context.Context, w *sdk.Task[[]byte]) error {
					if w.Attempt == 1 && strings.ContainsAny(string(w.ID[len(w.ID)-1:]), "aeiouAEIOU048") {
						return failing
					}
					return nil
				}, sdk.Slots(50))
				time.Sleep(30 * time.Second)
				s = r.live(false)
				q := heldFor(s, "quota")
				if q.Rate != rate || q.Tasks < 100 || q.Used < rate/2 || q.Used > rate*1.1 || q.Text == "" || heldFor(s, "no worker").Text != "" || heldFor(s, "queue full").Text != "" {
					t.Errorf("at its quota: %+v", s.HeldBy)
				}
				if s.Workers != 1 || s.FailedPerSecond == 0 || s.StartedPerSecond < rate/2 || s.StartedPerSecond > q.Used+0.1 || math.Abs(s.Priorities[1].StartedPerSecond-s.StartedPerSecond) > 0.1 || s.Due != -1 { // a task may start between the two
					t.Errorf("at its quota: %+v", s)
				}
				gate, err := r.admin().Gates.Create(r.ctx, admin.Gate{Action: admin.GatePause, Lambda: "mail", Reason: "db maintenance"})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Second)
				s = r.live(false)
				if h := heldFor(s, "gate"); h.Gate != gate.ID || h.Action != admin.GatePause || !strings.Contains(h.Text, "db maintenance") || heldFor(s, "quota").Text != "" {
					t.Errorf("paused: %+v", s.HeldBy)
				}
				if _, err := r.admin().Gates.Resume(r.ctx, gate.ID, admin.GateResumeOptions{}); err != nil {
					t.Fatal(err)
				}
				if _, err := r.admin().Quotas.Set(r.ctx, admin.Quota{Lambda: "mail", Admit: 1}, admin.QuotaSetOptions{Reset: []string{"rate"}}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
				within, cancel := context.WithTimeout(r.ctx, 10*time.Millisecond)
				defer cancel()
				results, err := r.client.ScheduleMany(within, itemsOf("mail", 20))
				if err == nil {
					t.Error("twenty tasks at once are not too many for one a second")
				}
				for i := range results {
					if results[i].Err == nil {
						r.book.accepted(results[i].ID)
					}
				}
				if s = r.live(false); s.ThrottledPerSecond == 0 {
					t.Errorf("refused tasks are not told: %+v", s)
				}
				r.settled(5 * time.Minute)
			})
		})
	}
}

func itemsOf(lambda string, count int) []sdk.Item {
	items := make([]sdk.Item, count)
	for i := range items {
		items[i] = sdk.Item{Lambda: lambda}
	}
	return items
}

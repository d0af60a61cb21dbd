package node

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

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

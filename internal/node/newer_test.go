package node

import (
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// TestRowsKeepWhatANewerVersionAdded adds a member to a row of each kind that a Book has, and has the row changed.
func TestRowsKeepWhatANewerVersionAdded(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		n := r.nodes[0].node
		ctx := access.With(r.ctx, access.Caller{Identity: access.Identity{Name: "ops", Grants: access.All()}})
		must := func(_ any, err error) {
			r.Helper()
			if err != nil {
				r.Fatal(err)
			}
		}
		item := &kinesinv1.ScheduleItem{Lambda: "mail", Delay: time.Hour.Microseconds()}
		must(n.inbound.Schedule(ctx, &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{item, item, item}}))
		must(n.quotas.service.SetQuota(ctx, &kinesinv1.SetQuotaRequest{Lambda: "mail", Rate: 5, Fields: []string{"rate"}}))
		must(n.objectiveService().SetObjective(ctx, &kinesinv1.SetObjectiveRequest{Lambda: "mail", Within: 1_000_000, Objective: 99}))
		must(n.periodic.SetCron(ctx, &kinesinv1.SetCronRequest{Cron: &kinesinv1.Cron{Name: "tick", Lambda: "mail", Schedule: "@hourly"}}))
		must(n.periodic.RunCron(ctx, &kinesinv1.RunCronRequest{Name: "tick"}))
		gate, err := n.gating.SetGate(ctx, &kinesinv1.SetGateRequest{Gate: &kinesinv1.Gate{Action: "pause", Lambda: "mail", Reason: "x"}})
		must(gate, err)
		group, err := n.grouping.CreateGroup(ctx, &kinesinv1.CreateGroupRequest{Then: []*kinesinv1.ScheduleItem{item}})
		must(group, err)
		job, err := n.jobs.CreateJob(ctx, &kinesinv1.CreateJobRequest{Action: "cancel", Where: "lambda=mail", All: true, Pace: 1})
		must(job, err)
		time.Sleep(100 * time.Millisecond)
		kinds := []string{"quota", "objective", "cron", "cron-runs", "gate", "group", "job"}
		for _, kind := range kinds {
			rows, err := n.store.Controls(ctx, kind)
			if err != nil || len(rows) != 1 {
				r.Fatal(kind, rows, err)
			}
			row := rows[0]
			row.Version, row.Value = row.Version+1, append(row.Value[:len(row.Value)-1:len(row.Value)-1], `,"later":{"x":1}}`...)
			must(nil, n.store.PutControl(ctx, row))
		}
		must(n.quotas.service.SetQuota(ctx, &kinesinv1.SetQuotaRequest{Lambda: "mail", Rate: 6, Fields: []string{"rate"}}))
		must(n.objectiveService().SetObjective(ctx, &kinesinv1.SetObjectiveRequest{Lambda: "mail", Within: 2_000_000, Objective: 99}))
		must(n.periodic.PauseCron(ctx, &kinesinv1.PauseCronRequest{Name: "tick", Reason: "x"}))
		must(n.periodic.RunCron(ctx, &kinesinv1.RunCronRequest{Name: "tick"}))
		must(n.gating.ResumeGate(ctx, &kinesinv1.ResumeGateRequest{Id: gate.Gate.Id}))
		must(n.grouping.SealGroup(ctx, &kinesinv1.SealGroupRequest{Group: group.Group.Id}))
		must(n.jobs.ControlJob(ctx, &kinesinv1.ControlJobRequest{Id: job.Job.Id, Action: "stop"}))
		time.Sleep(10 * time.Second)
		for _, kind := range kinds {
			all := ""
			for _, kind := range []string{kind, kind + "-ended"} { // three have ended by then
				rows, err := n.store.Controls(ctx, kind)
				must(rows, err)
				for _, row := range rows {
					all += string(row.Value)
				}
			}
			if !strings.Contains(all, `"later":{"x":1}`) {
				r.Errorf("%s: %s", kind, all)
			}
		}
	})
}

package admin_test

import (
	"errors"
	"testing"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

// Calls that no other test here makes arrive at a server, with what they ask for. Which fields requests and
// answers have is tested in test/golden.
func TestCallsArrive(t *testing.T) {
	t.Parallel()
	k := sdktest.New(t)
	a, ctx := k.Admin(), t.Context()
	k.Lambda("mail")
	gate := admin.Gate{Action: admin.GatePause, Lambda: "mail", Reason: "db"}
	if would, err := a.Gates.DryRun(ctx, gate); err != nil || would.ID != "" || !would.Counts.Exact {
		t.Errorf("dry run: %+v, %v", would, err)
	}
	if _, err := a.Gates.Create(ctx, gate); err != nil {
		t.Error(err)
	}
	if all, err := a.Gates.List(ctx, "mail", admin.GateListOptions{}); err != nil || len(all) != 1 || all[0].Reason != "db" {
		t.Errorf("gates: %+v, %v", all, err)
	}
	cron := admin.Cron{Name: "nightly", Lambda: "mail", Schedule: "@daily"}
	if _, err := a.Crons.Update(ctx, cron); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("an update without a version: %v", err)
	}
	if _, _, err := a.Crons.Create(ctx, cron); err != nil {
		t.Error(err)
	}
	if id, err := a.Crons.Run(ctx, "nightly"); err != nil || k.Task(id).Lambda != "mail" {
		t.Errorf("run: %s, %v", id, err)
	}
	if err := a.Crons.Delete(ctx, "nightly"); err != nil {
		t.Error(err)
	}
	if err := a.Objectives.Delete(ctx, "mail"); err != nil {
		t.Error(err)
	}
}

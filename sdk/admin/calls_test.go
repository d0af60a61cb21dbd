package admin_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

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

func wantQuotas(t *testing.T, c *admin.Client, lambda string, want ...admin.Quota) {
	t.Helper()
	got, err := c.Quotas.List(t.Context(), lambda)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i].Updated, got[i].UpdatedBy = time.Time{}, ""
	}
	if len(got) != len(want) {
		t.Fatalf("quotas of %q: %+v, want %+v", lambda, got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("quotas of %q: %+v, want %+v", lambda, got, want)
		}
	}
}

// A lambda that is created again has none of the quotas of the one before.
func TestQuotasEndWithTheirLambda(t *testing.T) {
	t.Parallel()
	c := sdktest.New(t).Admin()
	for range 2 {
		if _, _, err := c.Lambdas.Create(t.Context(), admin.Lambda{Name: "mail"}); err != nil {
			t.Fatal(err)
		}
		wantQuotas(t, c, "mail")
		wantQuotas(t, c, "")
		if _, err := c.Quotas.Set(t.Context(), admin.Quota{Lambda: "mail", Rate: 1}, admin.QuotaSetOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Lambdas.Delete(t.Context(), "mail", admin.LambdaDeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// A cron from its first occurrence to its history, through a failure and a pause.
func TestACronFires(t *testing.T) {
	t.Parallel()
	k := sdktest.New(t, sdktest.StartAt(time.Date(2027, 1, 31, 8, 30, 0, 0, time.UTC)))
	k.Lambda("report")
	w := sdk.NewWorker(k.Client(), sdk.Slots(1))
	ran := make(chan string, 10)
	w.Register("report", func(_ context.Context, task *sdk.Task[[]byte]) error {
		ran <- string(task.Payload)
		if string(task.Payload) == "2027-01-31T10:00:00Z" {
			return sdk.Fatal(errors.New("no such file"))
		}
		return nil
	})
	k.Run(w)
	if _, _, err := k.Admin().Crons.Create(t.Context(), admin.Cron{Name: "hourly", Lambda: "report", Schedule: "@hourly", Payload: []byte("{{nominal}}")}); err != nil {
		t.Fatal(err)
	}
	wantRun := func(nominal string) {
		t.Helper()
		select {
		case got := <-ran:
			if got != "2027-01-31T"+nominal+"Z" {
				t.Errorf("%s ran, want %s", got, nominal)
			}
		default:
			t.Errorf("nothing ran, want %s", nominal)
		}
	}
	for _, nominal := range []string{"09:00:00", "10:00:00", "11:00:00"} {
		k.Advance(time.Hour)
		wantRun(nominal)
	}
	if _, err := k.Admin().Crons.Pause(t.Context(), "hourly", "moving", admin.CronPauseOptions{}); err != nil {
		t.Fatal(err)
	}
	k.Advance(3 * time.Hour)
	if len(ran) > 0 {
		t.Errorf("%s ran while the cron was paused", <-ran)
	}
	if _, err := k.Admin().Crons.Resume(t.Context(), "hourly"); err != nil {
		t.Fatal(err)
	}
	k.Advance(time.Minute)
	wantRun("14:00:00")
	history, err := k.Admin().Crons.History(t.Context(), "hourly", admin.CronHistoryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"14:00 ran success", "13:00 missed ", "12:00 skipped dropped", "11:00 ran success", "10:00 ran fatal_failure", "09:00 ran success"}
	for i, o := range history {
		if i >= len(want) || fmt.Sprint(o.Nominal.Format("15:04 "), o.Outcome, " ", o.State) != want[i] || (o.Reason == "") != (o.Outcome == "ran") {
			t.Errorf("%d: %+v", i, o)
		}
		if info, err := k.Client().Get(t.Context(), o.ID); o.ID != "" && (err != nil || info.State != o.State || info.Occurrence == nil || !info.Occurrence.Nominal.Equal(o.Nominal)) {
			t.Errorf("%d: its task is %+v, %v", i, info, err)
		}
	}
	if len(history) != len(want) {
		t.Errorf("%d nominal times, want %d", len(history), len(want))
	}
}

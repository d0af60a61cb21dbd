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

package admin_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

func TestCronsOfTheClient(t *testing.T) {
	t.Parallel()
	k := sdktest.New(t)
	c, a := k.Client(), k.Admin()
	for _, name := range []string{"mail", "pay"} {
		if _, _, err := a.Lambdas.Create(t.Context(), admin.Lambda{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	want := admin.Cron{
		Name: "nightly", Lambda: "mail", Schedule: "30 2 * * *", Zone: "Europe/Berlin", Start: k.Now().Add(time.Hour), End: k.Now().Add(240 * time.Hour),
		Jitter: 1500 * time.Millisecond, Gap: "skip", Fold: "both", Overlap: "queue", CatchUp: "all", CatchUpMax: 5, CatchUpWithin: 2 * time.Hour, FailuresMax: 3,
		Priority: "high", Collection: "reports", Tags: map[string]string{"a": "b"}, Payload: []byte("at {{nominal}}"),
	}
	made, duplicate, err := a.Crons.Create(t.Context(), want)
	if err != nil || duplicate || made.Version == 0 || made.Revision != 1 || !made.Created.Equal(k.Now()) || made.CreatedBy == "" || len(made.Next) != 5 || made.Pause != nil {
		t.Errorf("created: %+v %v %v", made, duplicate, err)
	}
	settings := made
	settings.Version, settings.Revision, settings.Created, settings.CreatedBy, settings.Updated, settings.UpdatedBy, settings.Next = 0, 0, time.Time{}, "", time.Time{}, "", nil
	if want.Start, want.End = want.Start.UTC(), want.End.UTC(); !reflect.DeepEqual(settings, want) {
		t.Errorf("created\n%+v, want\n%+v", settings, want)
	}
	if again, duplicate, err := a.Crons.Create(t.Context(), want); err != nil || !duplicate || again.Version != made.Version {
		t.Errorf("again: %+v %v %v", again, duplicate, err)
	}
	other := want
	other.Schedule = "@hourly"
	if _, _, err := a.Crons.Create(t.Context(), other); !errors.Is(err, sdk.ErrExists) {
		t.Errorf("with other settings: %v", err)
	}
	other.Version = made.Version
	updated, err := a.Crons.Update(t.Context(), other)
	if err != nil || updated.Schedule != "@hourly" || updated.Revision != 2 || updated.Version <= made.Version {
		t.Errorf("updated: %+v %v", updated, err)
	}
	other.Schedule = "@daily"
	if _, err := a.Crons.Update(t.Context(), other); !errors.Is(err, sdk.ErrStaleSeq) {
		t.Errorf("of an earlier version: %v", err)
	}
	paused, err := a.Crons.Pause(t.Context(), "nightly", "moving", admin.CronPauseOptions{Until: k.Now().Add(time.Hour)})
	if err != nil || paused.Pause == nil || paused.Pause.Reason != "moving" || paused.Pause.By == "" || !paused.Pause.Until.Equal(k.Now().Add(time.Hour)) || len(paused.Next) != 0 {
		t.Errorf("paused: %+v %v", paused, err)
	}
	id, err := a.Crons.Run(t.Context(), "nightly")
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Get(t.Context(), id, sdk.WithPayload())
	if err != nil || got.Collection != "reports" || got.Priority != "high" || got.Tags["a"] != "b" || string(got.Payload) != "at "+berlin(t, k.Now()) {
		t.Errorf("run: %+v %v", got, err)
	}
	if resumed, err := a.Crons.Resume(t.Context(), "nightly"); err != nil || resumed.Pause != nil || len(resumed.Next) != 5 {
		t.Errorf("resumed: %+v %v", resumed, err)
	}
	for lambda, n := range map[string]int{"": 1, "mail": 1, "pay": 0} {
		if all, err := a.Crons.List(t.Context(), lambda); err != nil || len(all) != n || n > 0 && (all[0].Payload != nil || len(all[0].Next) != 1) {
			t.Errorf("of %q: %+v %v", lambda, all, err)
		}
	}
	if history, err := a.Crons.History(t.Context(), "nightly", admin.CronHistoryOptions{}); err != nil || len(history) != 1 || !history[0].Manual || history[0].ID != id {
		t.Errorf("history before it fires: %+v %v", history, err)
	}
	if one, err := a.Crons.Get(t.Context(), "nightly"); err != nil || one.Schedule != "@hourly" {
		t.Errorf("get: %+v %v", one, err)
	}
	if err := a.Crons.Delete(t.Context(), "nightly"); err != nil {
		t.Error(err)
	}
	if _, err := a.Crons.Get(t.Context(), "nightly"); !errors.Is(err, sdk.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
}

// berlin returns a time as a payload has it.
func berlin(t *testing.T, at time.Time) string {
	t.Helper()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip(err)
	}
	return at.In(zone).Truncate(time.Second).Format(time.RFC3339)
}

func TestCronsThatAreRefused(t *testing.T) {
	t.Parallel()
	k := sdktest.New(t)
	a := k.Admin()
	if _, _, err := a.Lambdas.Create(t.Context(), admin.Lambda{Name: "mail"}); err != nil {
		t.Fatal(err)
	}
	cron := admin.Cron{Name: "nightly", Lambda: "mail", Schedule: "@daily"}
	if _, err := a.Crons.Update(t.Context(), cron); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("an update without a version: %v", err)
	}
	for what, change := range map[string]func(*admin.Cron){
		"no schedule": func(c *admin.Cron) { c.Schedule = "" }, "no zone": func(c *admin.Cron) { c.Zone = "Europe/Berln" },
		"a negative number": func(c *admin.Cron) { c.CatchUp, c.CatchUpMax = "all", -1 }, "negative failures": func(c *admin.Cron) { c.FailuresMax = -1 },
	} {
		asked := cron
		change(&asked)
		if _, _, err := a.Crons.Create(t.Context(), asked); !errors.Is(err, sdk.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	cron.Lambda = "nail"
	if _, _, err := a.Crons.Create(t.Context(), cron); !errors.Is(err, sdk.ErrUnknownLambda) {
		t.Errorf("of an unknown lambda: %v", err)
	}
	for what, call := range map[string]func() error{
		"pause": func() error {
			_, err := a.Crons.Pause(t.Context(), "none", "x", admin.CronPauseOptions{})
			return err
		},
		"resume": func() error { _, err := a.Crons.Resume(t.Context(), "none"); return err },
		"run":    func() error { _, err := a.Crons.Run(t.Context(), "none"); return err },
		"delete": func() error { return a.Crons.Delete(t.Context(), "none") },
		"history": func() error {
			_, err := a.Crons.History(t.Context(), "none", admin.CronHistoryOptions{})
			return err
		},
	} {
		if err := call(); !errors.Is(err, sdk.ErrNotFound) {
			t.Errorf("%s of none: %v", what, err)
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

package cron_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/inboundtest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// fill does a whole backfill in steps, and returns how many nominal times had which outcome.
func (f *fixture) fill(from, to string) map[string]int {
	f.T.Helper()
	f.backfillFrom(from, to)
	outcomes := map[string]int{}
	for position, isLast := []byte(nil), false; !isLast; {
		filled, err := f.Range(f.Ctx, f.backfill, position, 3)
		if err != nil {
			f.T.Fatal(err)
		}
		for _, outcome := range filled.Outcomes {
			outcomes[outcome]++
		}
		position, isLast = filled.Next, filled.IsLast
	}
	return outcomes
}

func (f *fixture) backfillFrom(from, to string) {
	f.T.Helper()
	_, err := f.BackfillCron(f.Ctx, &kinesinv1.BackfillCronRequest{Name: "nightly", From: int64(at(f.T, from)), To: int64(at(f.T, to))})
	if err != nil {
		f.T.Fatal(err)
	}
}

func wantOutcomes(t *testing.T, got, want map[string]int) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// It leaves alone what ran, runs or waits. It schedules what was skipped or missed, and what was before the
// cron, and one backfill only does so.
func TestABackfill(t *testing.T) {
	f := newFixture(t)
	f.set(nightly())
	f.put(store.PutTask, "14T23:00:00", ended(task.Success, 1, ""))
	f.put(store.PutTask, "15T00:00:00", ended(task.Dropped, 0, "the one before it had not ended"))
	f.put(store.PutTask, "15T03:00:00", ended(task.Dead, 3, "no such file"))
	f.put(store.PutTask, "15T04:00:00", live(task.Processing, 1))
	f.put(store.PutWakeup, "15T05:00:00", nil)
	f.Time.Advance(at(t, "15T08:30:00").Sub(inboundtest.Start))
	// 6:00 to 8:00 have no rows yet: the cron decides about them after 5:00.
	wantOutcomes(t, f.fill("14T20:00:00", "15T08:00:00"), map[string]int{"scheduled": 6, "ran": 2, "runs": 1, "waits": 3})
	if got := times(f.filled); got != "14T20:00:00 14T21:00:00 14T22:00:00 15T00:00:00 15T01:00:00 15T02:00:00" {
		t.Error(got)
	}
	wantOutcomes(t, f.fill("14T19:00:00", "15T08:00:00"), map[string]int{"scheduled": 1, "backfilled": 6, "ran": 2, "runs": 1, "waits": 3})
	wantLines(t, f.history(&kinesinv1.CronHistoryRequest{Limit: 12}),
		"15T08:00:00 1 waits", "15T07:00:00 1 waits", "15T06:00:00 1 waits", "15T05:00:00 1 waits", "15T04:00:00 1 runs", "15T03:00:00 1 ran dead",
		"15T02:00:00 1 waits scheduled", "15T01:00:00 1 waits scheduled", "15T00:00:00 1 waits scheduled", "14T23:00:00 1 ran",
		"14T22:00:00 1 waits scheduled", "14T21:00:00 1 waits scheduled")
}

// Once the next one to come has a row, all before it were decided.
func TestABackfillOfWhatWasMissed(t *testing.T) {
	f := newFixture(t)
	f.set(nightly())
	f.put(store.PutWakeup, "15T09:00:00", nil)
	f.Time.Advance(at(t, "15T08:30:00").Sub(inboundtest.Start))
	wantOutcomes(t, f.fill("15T05:00:00", "15T08:30:00"), map[string]int{"scheduled": 4})
}

// A revision that is behind decides about its own nominal times, however far a later one is.
func TestABackfillLeavesAloneWhatAnEarlierRevisionHasYetToDecide(t *testing.T) {
	f := newFixture(t)
	made := f.set(nightly())
	f.put(store.PutTask, "14T23:00:00", ended(task.Success, 1, ""))
	f.put(store.PutWakeup, "15T00:00:00", nil)
	f.Time.Advance(at(t, "15T02:30:00").Sub(inboundtest.Start))
	f.set(nightly(func(c *kinesinv1.Cron) { c.Version, c.Tags = made.Version, map[string]string{"a": "b"} }))
	f.put(store.PutWakeup, "15T04:00:00", func(one *task.Task) { one.ID = idOf("nightly", 2, one.Due) })
	f.Time.Advance(time.Hour)
	wantOutcomes(t, f.fill("14T23:00:00", "15T03:30:00"), map[string]int{"ran": 1, "waits": 3, "scheduled": 1})
	if got := times(f.filled); got != "15T03:00:00" {
		t.Error(got)
	}
}

// While a cron is paused nothing is decided about what it misses: its catch-up does when it is resumed.
func TestABackfillOfAPause(t *testing.T) {
	f := newFixture(t)
	f.set(nightly())
	f.put(store.PutTask, "14T23:00:00", ended(task.Success, 1, ""))
	f.Time.Advance(at(t, "14T23:30:00").Sub(inboundtest.Start))
	if _, err := f.PauseCron(f.Ctx, &kinesinv1.PauseCronRequest{Name: "nightly", Reason: "moving"}); err != nil {
		t.Fatal(err)
	}
	f.Time.Advance(3 * time.Hour)
	wantOutcomes(t, f.fill("14T22:00:00", "15T02:00:00"), map[string]int{"scheduled": 1, "ran": 1, "paused": 2})
}

// Occurrences of revisions that the cron has forgotten ran all the same.
func TestABackfillFindsWhatRanUnderForgottenRevisions(t *testing.T) {
	f := newFixture(t)
	made := f.set(nightly())
	f.put(store.PutTask, "15T00:00:00", ended(task.Success, 1, ""))
	f.put(store.PutTask, "15T01:00:00", ended(task.Dropped, 0, "not now"))
	l, err := f.Catalog.Lambda("mail")
	if err != nil {
		t.Fatal(err)
	}
	f.put(store.PutTask, "15T02:00:00", func(one *task.Task) {
		ended(task.Success, 1, "")(one)
		one.ID = task.OccurrenceID(l.Ref, "nightly", task.Instant(made.Created), task.Firing{Revision: 1, Nominal: at(t, "15T02:00:00")})
	})
	f.Time.Advance(24 * time.Hour)
	made = f.set(nightly(func(c *kinesinv1.Cron) { c.Version, c.Tags = made.Version, map[string]string{"a": "b"} }))
	f.Time.Advance(48 * time.Hour)
	f.set(nightly(func(c *kinesinv1.Cron) { c.Version, c.Tags = made.Version, map[string]string{"a": "c"} }))
	wantOutcomes(t, f.fill("15T02:00:00", "15T04:00:00"), map[string]int{"scheduled": 1, "ran": 1})
}

func TestADryRunOfABackfill(t *testing.T) {
	f := newFixture(t)
	f.set(nightly())
	f.put(store.PutTask, "14T23:00:00", ended(task.Success, 1, ""))
	f.put(store.PutWakeup, "15T09:00:00", nil)
	f.Time.Advance(at(t, "15T08:30:00").Sub(inboundtest.Start))
	r, err := f.BackfillCron(f.Ctx, &kinesinv1.BackfillCronRequest{Name: "nightly", From: int64(at(t, "14T12:00:00")), To: int64(at(t, "15T01:00:00")), DryRun: true})
	if err != nil {
		t.Fatal(err)
	}
	if j := r.Job; j.Matched != 13 || !j.MatchedExact || j.Outcomes["scheduled"] != 12 || j.Outcomes["ran"] != 1 || len(j.Backfill.Sample) != 10 || len(f.filled) > 0 || f.backfill != "" {
		t.Errorf("%v, filled %v", j, f.filled)
	}
}

func TestABackfillThatIsRefused(t *testing.T) {
	f := newFixture(t)
	f.set(nightly())
	year := at(t, "14T00:00:00") - task.Instant(366*24*time.Hour/time.Microsecond)
	now := int64(f.Clock.Now())
	for name, c := range map[string]struct {
		request *kinesinv1.BackfillCronRequest
		reason  kinesinv1.Reason
		says    string
	}{
		"no range":     {&kinesinv1.BackfillCronRequest{From: 1}, kinesinv1.Reason_REASON_INVALID, "missing"},
		"to come":      {&kinesinv1.BackfillCronRequest{From: now, To: now + 3600_000_000}, kinesinv1.Reason_REASON_INVALID, "not past"},
		"turned round": {&kinesinv1.BackfillCronRequest{From: now, To: now - 1}, kinesinv1.Reason_REASON_INVALID, "not before"},
		"no such cron": {&kinesinv1.BackfillCronRequest{Name: "none", From: 1, To: 2}, kinesinv1.Reason_REASON_NOT_FOUND, "none"},
		"pace":         {&kinesinv1.BackfillCronRequest{From: 1, To: 2, Pace: 1_000_001}, kinesinv1.Reason_REASON_INVALID, "pace"},
	} {
		c.request.Name = max(c.request.Name, "nightly")
		_, err := f.BackfillCron(f.Ctx, c.request)
		t.Run(name, func(t *testing.T) { refused(t, err, c.reason, c.says) })
	}
	if testing.Short() {
		return // what follows counts fifty million nominal times
	}
	f.set(&kinesinv1.Cron{Name: "often", Lambda: "mail", Schedule: "@every 1s"})
	many := &kinesinv1.BackfillCronRequest{Name: "often", From: int64(year), To: int64(year) + 10_000_000_000_000}
	_, err := f.BackfillCron(f.Ctx, many)
	refused(t, err, kinesinv1.Reason_REASON_INVALID, "10000000 nominal times", "all")
	many.DryRun = true
	if r, err := f.BackfillCron(f.Ctx, many); err != nil || r.Job.Matched != 10_000_000 || !strings.Contains(r.Job.Cost, "more than 100000 are refused without all") {
		t.Error(r, err)
	}
	if many.DryRun, many.All = false, true; f.backfill != "" {
		t.Error("it began all the same")
	}
	if _, err := f.BackfillCron(f.Ctx, many); err != nil || f.backfill == "" {
		t.Error(err)
	}
	many.To = int64(year) + 20_000_001_000_000
	_, err = f.BackfillCron(f.Ctx, many)
	refused(t, err, kinesinv1.Reason_REASON_INVALID, "20000000")
}

// Another expression has other nominal times, and who lost the right goes no further.
func TestABackfillEndsWithItsCron(t *testing.T) {
	f := newFixture(t)
	made := f.set(nightly())
	f.backfillFrom("14T12:00:00", "14T20:00:00")
	f.As("ops", "read:mail", "operate:mail")
	_, err := f.Range(f.Ctx, f.backfill, nil, 3)
	refused(t, err, kinesinv1.Reason_REASON_PERMISSION_DENIED, "nightly")
	f.As("ops", "*:*")
	if _, err := f.PauseCron(f.Ctx, &kinesinv1.PauseCronRequest{Name: "nightly", Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Range(f.Ctx, f.backfill, nil, 3); err != nil {
		t.Errorf("a pause changes no expression: %v", err)
	}
	f.set(nightly(func(c *kinesinv1.Cron) { c.Version, c.Schedule = made.Version+1, "@daily" }))
	_, err = f.Range(f.Ctx, f.backfill, nil, 3)
	refused(t, err, kinesinv1.Reason_REASON_INVALID, "changed")
	if _, err := f.DeleteCron(f.Ctx, &kinesinv1.DeleteCronRequest{Name: "nightly"}); err != nil {
		t.Fatal(err)
	}
	_, err = f.Range(f.Ctx, f.backfill, nil, 3)
	refused(t, err, kinesinv1.Reason_REASON_NOT_FOUND, "nightly")
}

func TestADeletedCronLeavesNothingToCome(t *testing.T) {
	f := newFixture(t)
	f.set(nightly())
	f.put(store.PutWakeup, "14T23:00:00", nil)
	if _, err := f.DeleteCron(f.Ctx, &kinesinv1.DeleteCronRequest{Name: "nightly"}); err != nil {
		t.Fatal(err)
	}
	if len(f.cancelled) != 1 || f.cancelled[0] != idOf("nightly", 1, at(t, "14T23:00:00")).String() {
		t.Error(f.cancelled)
	}
}

// The set of which a cron is changes nothing about what fires.
func TestAManagedCron(t *testing.T) {
	f := newFixture(t)
	made := f.set(nightly(func(c *kinesinv1.Cron) { c.ManagedBy = "team" }))
	for _, step := range []struct {
		by, schedule string
		revision     uint64
	}{
		{"", "@hourly", 1}, {"other", "@hourly", 1}, {"other", "@daily", 2}, {"", "@daily", 2}, {"a", "@hourly", 3},
	} {
		made = f.set(nightly(func(c *kinesinv1.Cron) { c.Version, c.ManagedBy, c.Schedule = made.Version, step.by, step.schedule }))
		if made.ManagedBy != step.by || made.Revision != step.revision {
			t.Errorf("%+v: %v", step, made)
		}
	}
	_, err := f.SetCron(f.Ctx, &kinesinv1.SetCronRequest{Cron: nightly(func(c *kinesinv1.Cron) { c.Name, c.ManagedBy = "x", "no spaces" })})
	refused(t, err, kinesinv1.Reason_REASON_INVALID, "managed by")
}

package cron_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/inboundtest"
	"github.com/kinesin-io/kinesin/internal/feature/cron"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// at returns a time in November 2023 such as 15T01:00:00.
func at(t *testing.T, text string) task.Instant {
	t.Helper()
	parsed, err := time.Parse("2006-01-02T15:04:05", "2023-11-"+text)
	if err != nil {
		t.Fatal(err)
	}
	return task.InstantOf(parsed)
}

// put stores a row of an occurrence of revision 1 of cron nightly.
func (f *fixture) put(kind store.OpKind, nominal string, change func(*task.Task)) {
	f.T.Helper()
	n := at(f.T, nominal)
	l, err := f.Catalog.Lambda("mail")
	if err != nil {
		f.T.Fatal(err)
	}
	one := task.Task{
		ID: idOf("nightly", 1, n), Partition: task.Partition{Lambda: l.Ref, Priority: 1}, State: task.Scheduled, Seq: 1,
		Due: n, Created: n, Wake: n, WakeRow: task.WakeRow{At: n, Seq: 1},
	}
	if change != nil {
		change(&one)
	}
	outcomes, err := f.Store.Apply(f.Ctx, []store.Op{{Kind: kind, Task: one}})
	if err != nil || outcomes[0] != nil {
		f.T.Fatal(outcomes, err)
	}
}

func ended(s task.State, attempts uint32, text string) func(*task.Task) {
	return func(one *task.Task) {
		one.State, one.Attempt, one.Ended, one.Wake, one.ExpireAt = s, attempts, one.Due.Add(time.Minute), 0, one.Due.Add(24*time.Hour)
		if attempts > 0 {
			one.FirstStarted = one.Due.Add(2 * time.Millisecond)
		}
		if text != "" {
			one.History = []task.Attempt{{Number: attempts, End: one.Ended, Error: text}}
		}
	}
}

func live(s task.State, attempts uint32) func(*task.Task) {
	return func(one *task.Task) {
		one.Seq, one.State, one.Attempt = 2, s, attempts
		if attempts > 0 {
			one.FirstStarted = one.Due // exactly
		}
	}
}

// history returns a line for each nominal time.
func (f *fixture) history(r *kinesinv1.CronHistoryRequest) []string {
	f.T.Helper()
	r.Name = "nightly"
	response, err := f.CronHistory(f.Ctx, r)
	if err != nil {
		f.T.Fatal(err)
	}
	var lines []string
	for _, o := range response.Occurrences {
		if (o.Id == "") != (o.State == "") {
			f.T.Errorf("%v has an id or a state alone", o)
		}
		line := fmt.Sprintf("%s %d %s", times([]int64{o.Nominal}), o.Revision, o.Outcome)
		if o.State != "" {
			line += " " + o.State
		}
		if o.Late > 0 {
			line += " late " + task.Micros(o.Late).String()
		}
		if o.Reason != "" {
			line += " (" + o.Reason + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

func wantLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		return
	}
	for i := range got {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got %s, want %s", got[i], want[i])
		}
	}
}

func TestWhatBecameOfNominalTimes(t *testing.T) {
	f := newFixture(t)
	f.set(nightly())
	f.put(store.PutTask, "14T23:00:00", ended(task.Success, 1, ""))
	f.put(store.PutTask, "15T00:00:00", ended(task.Dropped, 0, "the one before it had not ended"))
	f.put(store.PutTask, "15T02:00:00", ended(task.Cancelled, 0, ""))
	f.put(store.PutTask, "15T03:00:00", ended(task.Dead, 3, "no such file"))
	f.put(store.PutTask, "15T04:00:00", live(task.Processing, 1))
	f.put(store.PutTask, "15T05:00:00", live(task.RetriableFailure, 1))
	f.put(store.PutTask, "15T06:00:00", live(task.Enqueued, 0))
	f.put(store.PutWakeup, "15T07:00:00", nil)
	f.Time.Advance(at(t, "15T08:30:00").Sub(inboundtest.Start))
	decided := []string{
		"15T06:00:00 1 waits enqueued",
		"15T05:00:00 1 runs retriable_failure late 1µs",
		"15T04:00:00 1 runs processing late 1µs",
		"15T03:00:00 1 ran dead late 2ms",
		"15T02:00:00 1 skipped cancelled (it ended as cancelled before it started)",
		"15T01:00:00 1 missed (nothing could run it in time",
		"15T00:00:00 1 skipped dropped (the one before it had not ended)",
		"14T23:00:00 1 ran success late 2ms",
	}
	wantLines(t, f.history(&kinesinv1.CronHistoryRequest{}), append([]string{"15T08:00:00 1 waits", "15T07:00:00 1 waits scheduled"}, decided...)...)

	// The one that waits is older than what is asked for.
	wantLines(t, f.history(&kinesinv1.CronHistoryRequest{Limit: 1}), "15T08:00:00 1 waits")

	// Once the next one has a row, the last one was passed over.
	f.put(store.PutWakeup, "15T09:00:00", nil)
	wantLines(t, f.history(&kinesinv1.CronHistoryRequest{Limit: 2}), "15T08:00:00 1 missed", "15T07:00:00 1 waits scheduled")

	for _, c := range []struct {
		from, to string
		limit    uint32
		want     []string
	}{
		{"15T04:00:00", "", 2, []string{"15T08:00:00 1 missed", "15T07:00:00 1 waits"}},
		{"15T07:00:00", "", 0, []string{"15T08:00:00 1 missed", "15T07:00:00 1 waits"}},
		{"15T04:00:00", "15T05:00:00", 0, decided[1:3]},
		{"15T04:00:01", "15T05:59:59", 0, decided[1:2]},
		{"14T00:00:00", "14T23:00:00", 0, decided[7:]},
		{"14T00:00:00", "14T22:59:59", 0, nil},
	} {
		r := &kinesinv1.CronHistoryRequest{From: int64(at(t, c.from)), Limit: c.limit}
		if c.to != "" {
			r.To = int64(at(t, c.to))
		}
		wantLines(t, f.history(r), c.want...)
	}

	// A nominal time that has no row when the retention of the lambda may be over is forgotten.
	f.Time.Advance(20 * time.Hour) // to 16T04:30
	wantLines(t, f.history(&kinesinv1.CronHistoryRequest{From: int64(at(t, "15T08:00:00")), To: int64(at(t, "15T08:00:00"))}), "15T08:00:00 1 missed")
	f.Time.Advance(4 * time.Hour)
	wantLines(t, f.history(&kinesinv1.CronHistoryRequest{To: int64(at(t, "15T08:00:00")), Limit: 1}), "15T08:00:00 1 forgotten")
}

// A nominal time without a task has the reason of the one that passed it over.
func TestNominalTimesThatWerePassedOver(t *testing.T) {
	f := newFixture(t)
	f.set(nightly())
	f.put(store.PutTask, "15T00:00:00", ended(task.Dropped, 0, cron.LaterWaited+" (overlap queue)"))
	f.put(store.PutTask, "15T03:00:00", ended(task.Dropped, 0, "its time was missed, and a later one too (catch-up last)"))
	f.put(store.PutTask, "15T05:00:00", ended(task.Success, 1, ""))
	f.put(store.PutTask, "15T07:00:00", ended(task.Success, 1, ""))
	f.Time.Advance(at(t, "15T07:30:00").Sub(inboundtest.Start))
	wantLines(
		t, f.history(&kinesinv1.CronHistoryRequest{Limit: 8}),
		"15T07:00:00 1 ran", "15T06:00:00 1 missed (nothing could run it in time", "15T05:00:00 1 ran",
		"15T04:00:00 1 missed (its time was missed, and a later one too (catch-up last))", "15T03:00:00 1 skipped",
		"15T02:00:00 1 skipped (an earlier one had not ended", "15T01:00:00 1 skipped (an earlier one had not ended", "15T00:00:00 1 skipped dropped (an earlier one had not ended",
	)
}

// Each revision has the nominal times of which it is in charge, and those of a pause are skipped.
func TestHistoryFollowsTheRevisions(t *testing.T) {
	f := newFixture(t)
	f.set(nightly())
	f.Time.Advance(at(t, "15T01:59:58").Sub(inboundtest.Start))
	f.set(nightly(func(c *kinesinv1.Cron) { c.Version, c.Schedule = 1, "*/30 * * * *" }))
	f.Time.Advance(at(t, "15T03:10:00").Sub(f.Clock.Now()))
	wantLines(t, f.history(&kinesinv1.CronHistoryRequest{}), "15T03:00:00 2 missed", "15T02:30:00 2 missed",
		"15T02:00:00 1 missed", "15T01:00:00 1 missed", "15T00:00:00 1 missed", "14T23:00:00 1 missed") // 02:00 was within five seconds
	if _, err := f.PauseCron(f.Ctx, &kinesinv1.PauseCronRequest{Name: "nightly", Reason: "x"}); err != nil {
		t.Fatal(err)
	}
	f.Time.Advance(at(t, "15T05:10:00").Sub(f.Clock.Now()))
	wantLines(t, f.history(&kinesinv1.CronHistoryRequest{Limit: 2}), "15T05:00:00 3 skipped (the cron is paused: x)", "15T04:30:00 3 skipped (the cron is paused: x)")
	if _, err := f.ResumeCron(f.Ctx, &kinesinv1.ResumeCronRequest{Name: "nightly"}); err != nil {
		t.Fatal(err)
	}
	wantLines(t, f.history(&kinesinv1.CronHistoryRequest{Limit: 5}), "15T05:00:00 4", "15T04:30:00 4", "15T04:00:00 4", "15T03:30:00 4", "15T03:00:00 2")
}

// Far apart, close together and in bursts: the newest are found, in order and without gaps.
func TestTheNewestNominalTimesAreFound(t *testing.T) {
	f := newFixture(t)
	for i, schedule := range []string{"* * * * * *", "@every 7s", "0 0 1 1 *", "0 0 29 2 *", "* * * 1 1 *", "*/5 * * * * *", "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0;BYSECOND=0"} {
		spec := cron.Spec{Schedule: schedule, Start: inboundtest.Start}
		c := &cron.Cron{Name: fmt.Sprint("c", i), Lambda: "mail", Revisions: []cron.Revision{{Number: 1, From: inboundtest.Start, Spec: spec}}}
		if err := f.crons().Put(f.Ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	f.Time.Advance(20 * 365 * 24 * time.Hour)
	for i := range 7 {
		r, err := f.CronHistory(f.Ctx, &kinesinv1.CronHistoryRequest{Name: fmt.Sprint("c", i), Limit: 50})
		if err != nil {
			t.Fatal(err)
		}
		c, err := f.crons().Find(f.Ctx, fmt.Sprint("c", i))
		if err != nil {
			t.Fatal(err)
		}
		schedule, err := c.Now().Spec.Parse(c.Name)
		if err != nil {
			t.Fatal(err)
		}
		next := f.Clock.Now()
		if n, ok := schedule.Next(next.Time()); ok {
			next = task.InstantOf(n)
		}
		for _, o := range r.Occurrences {
			if n, _ := schedule.Next(time.UnixMicro(o.Nominal)); task.InstantOf(n) != next {
				t.Fatalf("%s: after %s comes %s, not %s", c.Now().Spec.Schedule, time.UnixMicro(o.Nominal).UTC(), n, next.Time())
			}
			next = task.Instant(o.Nominal)
		}
		if n := len(r.Occurrences); n != 50 && c.Now().Spec.Schedule != "0 0 1 1 *" && n != 5 {
			t.Errorf("%s: %d", c.Now().Spec.Schedule, n)
		}
	}
}

func TestHistoriesThatAreRefused(t *testing.T) {
	f := newFixture(t)
	f.set(nightly())
	for says, r := range map[string]*kinesinv1.CronHistoryRequest{
		"limit 1001":     {Limit: 1001},
		"is before 1970": {From: -1},
		"after to":       {From: int64(inboundtest.Start), To: int64(inboundtest.Start) - 1},
	} {
		r.Name = "nightly"
		_, err := f.CronHistory(f.Ctx, r)
		refused(t, err, kinesinv1.Reason_REASON_INVALID, says)
	}
	_, err := f.CronHistory(f.Ctx, &kinesinv1.CronHistoryRequest{Name: "none"})
	refused(t, err, kinesinv1.Reason_REASON_NOT_FOUND, "none")
}

// A cron outlives its lambda. It does not run, and one of a new lambda with the name is another one.
func TestACronWhoseLambdaWasDeleted(t *testing.T) {
	f := newFixture(t)
	f.set(nightly())
	entry, err := f.Catalog.Lambda("mail")
	if err == nil {
		entry, err = f.Catalog.Mark(f.Ctx, entry, true)
	}
	if err == nil {
		err = f.Catalog.Remove(f.Ctx, entry)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Time.Advance(time.Hour)
	f.Create(task.Lambda{Name: "mail"})
	_, err = f.RunCron(f.Ctx, &kinesinv1.RunCronRequest{Name: "nightly"})
	refused(t, err, kinesinv1.Reason_REASON_INVALID, "was deleted")
	_, err = f.PauseCron(f.Ctx, &kinesinv1.PauseCronRequest{Name: "nightly", Reason: "moving"})
	refused(t, err, kinesinv1.Reason_REASON_INVALID, "was deleted")
	_, err = f.ResumeCron(f.Ctx, &kinesinv1.ResumeCronRequest{Name: "nightly"})
	refused(t, err, kinesinv1.Reason_REASON_INVALID, "was deleted")
	if got, err := f.GetCron(f.Ctx, &kinesinv1.GetCronRequest{Name: "nightly"}); err != nil || !got.Cron.LambdaDeleted || len(got.Cron.Next) != 0 {
		t.Errorf("%v, %v", got, err)
	}
	wantLines(t, f.history(&kinesinv1.CronHistoryRequest{}), "14T23:00:00 1 forgotten")
	_, err = f.SetCron(f.Ctx, &kinesinv1.SetCronRequest{Cron: nightly()})
	refused(t, err, kinesinv1.Reason_REASON_EXISTS, "another lambda")
}

// What RunCron has scheduled is in the history, by when that was, once for each task, and is forgotten with its cron.
func TestTheHistoryHasManualRuns(t *testing.T) {
	f := newFixture(t)
	f.set(nightly())
	for range 2 { // the second is a call that is made again
		if _, err := f.RunCron(f.Ctx, &kinesinv1.RunCronRequest{Name: "nightly"}); err != nil {
			t.Fatal(err)
		}
	}
	history := func(r *kinesinv1.CronHistoryRequest) []*kinesinv1.CronOccurrence {
		t.Helper()
		r.Name = "nightly"
		got, err := f.CronHistory(f.Ctx, r)
		if err != nil {
			t.Fatal(err)
		}
		return got.Occurrences
	}
	now := int64(f.Clock.Now())
	all := history(&kinesinv1.CronHistoryRequest{})
	if len(all) != 1 || !all[0].Manual || all[0].Id != "k1" || all[0].Outcome != "ran" || all[0].State != "success" || all[0].Late != 2 || all[0].Nominal != now || all[0].Revision != 1 {
		t.Errorf("%v", all)
	}
	if all := history(&kinesinv1.CronHistoryRequest{To: now - 1}); len(all) != 0 {
		t.Errorf("before: %v", all)
	}
	if all := history(&kinesinv1.CronHistoryRequest{From: now}); len(all) != 1 {
		t.Errorf("from then on: %v", all)
	}
	if _, err := f.DeleteCron(f.Ctx, &kinesinv1.DeleteCronRequest{Name: "nightly"}); err != nil {
		t.Fatal(err)
	}
	if rows, err := f.Store.Controls(f.Ctx, "cron-runs"); err != nil || len(rows) != 0 {
		t.Errorf("%v, %v", rows, err)
	}
	left := store.Control{Kind: "cron-runs", Name: "nightly", Version: 1, Value: []byte(`{"life":1,"runs":[{"at":2,"id":"k1"}]}`)}
	if err := f.Store.PutControl(f.Ctx, left); err != nil {
		t.Fatal(err)
	}
	f.set(nightly())
	if all := history(&kinesinv1.CronHistoryRequest{}); len(all) != 0 {
		t.Errorf("of the next cron of this name: %v", all)
	}
}

package cron_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/inboundtest"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/feature/cron"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// fixture is a service over a store in memory, in virtual time. It keeps crons and fires nothing.
type fixture struct {
	*cron.Service
	*inboundtest.World

	// before is called before a cron is stored; nil: it is not.
	before func()
	// asked are the calls that scheduled tasks, which are refused if problem is set.
	asked   []*kinesinv1.ScheduleRequest
	problem *kinesinv1.Problem
	// backfill is the newest one, and filled are the nominal times that backfills scheduled.
	backfill string
	filled   []int64
	// cancelled are the tasks that were.
	cancelled []string
}

// Change stores the cron alone.
func (f *fixture) Change(ctx context.Context, name string, edit func(c *cron.Cron) (control.Do, error)) (*cron.Cron, error) {
	return f.crons().Set(ctx, name, func(c *cron.Cron) (control.Do, error) {
		do, err := edit(c)
		if f.before != nil && do == control.Store {
			f.before()
		}
		return do, err
	})
}

func (f *fixture) crons() *control.Book[cron.Cron] { return cron.NewBook(f.Store, clock.Real()) }

// PutBackfill puts the task rows of a backfill.
func (f *fixture) PutBackfill(ctx context.Context, c *cron.Cron, nominals []task.Instant) error {
	now := f.Clock.Now().CeilMillis()
	for _, at := range nominals {
		one := task.Task{
			ID: task.BackfillID(c.Ref, c.Name, c.Created, at), Partition: task.Partition{Lambda: c.Ref, Priority: 1}, State: task.Scheduled, Seq: 1,
			Due: now, Created: now, Wake: now, WakeRow: task.WakeRow{At: now, Seq: 1},
			Occurrence: &task.Occurrence{Cron: c.Name, Life: c.Created, At: task.Firing{Revision: c.Now().Number, Nominal: at}, Backfill: true},
		}
		f.filled = append(f.filled, int64(at))
		if _, err := f.Store.Apply(ctx, store.FirstWithRow(one)); err != nil {
			return err
		}
	}
	return nil
}

// CreateBackfill notes the backfill, and runs nothing.
func (f *fixture) CreateBackfill(_ context.Context, of, _ string, _ *kinesinv1.BackfillCronRequest) (*kinesinv1.Job, error) {
	f.backfill = of
	return &kinesinv1.Job{Id: "j1"}, nil
}

// Cancel notes what is cancelled.
func (f *fixture) Cancel(_ context.Context, r *kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error) {
	f.cancelled = append(f.cancelled, r.Ids...)
	return &kinesinv1.CancelResponse{}, nil
}

// Get returns a task that has ended for k1, and none for others.
func (f *fixture) Get(_ context.Context, r *kinesinv1.GetRequest) (*kinesinv1.GetResponse, error) {
	response := &kinesinv1.GetResponse{}
	for _, id := range r.Ids {
		result := &kinesinv1.GetResult{Problem: &kinesinv1.Problem{Reason: kinesinv1.Reason_REASON_NOT_FOUND}}
		if id == "k1" {
			result = &kinesinv1.GetResult{Task: &kinesinv1.Task{Id: id, State: "success", Attempt: 1, Due: 5, Started: 7, Ended: 9}}
		}
		response.Results = append(response.Results, result)
	}
	return response, nil
}

// Schedule notes what was asked for.
func (f *fixture) Schedule(_ context.Context, r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
	f.asked = append(f.asked, r)
	if f.problem != nil {
		return &kinesinv1.ScheduleResponse{Results: []*kinesinv1.ScheduleResult{{Problem: f.problem}}}, nil
	}
	return &kinesinv1.ScheduleResponse{Results: []*kinesinv1.ScheduleResult{{Id: "k1"}}}, nil
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{World: inboundtest.New(t)}
	f.Service = cron.NewService(cron.ServiceConfig{
		Store: f.Store, Keeper: f, Jobs: f, Lambdas: f.Catalog, Tasks: f, Clock: f.Clock,
		FirstRow: func(c *cron.Cron, l *catalog.Entry, r *cron.Revision, nominal, due task.Instant) store.WakeKey {
			return store.WakeKey{Partition: task.Partition{Lambda: l.Ref, Priority: r.Spec.Class}, Wake: due.CeilMillis(), ID: idOf(c.Name, r.Number, nominal)}
		},
		PublicID:        func(t *task.Task) string { return t.ID.String() },
		PayloadBytesMax: 100_000,
	})
	f.Create(task.Lambda{Name: "mail", Retention: 24 * time.Hour})
	f.Create(task.Lambda{Name: "pay"})
	return f
}

// idOf returns the id of an occurrence, of version 8.
func idOf(name string, revision uint64, nominal task.Instant) (id task.ID) {
	copy(id[:], fmt.Sprintf("%c%c%014x", name[0], '0'+rune(revision), int64(nominal)/1_000_000))
	id[6], id[8] = id[6]&0xf|0x80, id[8]&0x3f|0x80
	return id
}

func nightly(change ...func(*kinesinv1.Cron)) *kinesinv1.Cron {
	c := &kinesinv1.Cron{Name: "nightly", Lambda: "mail", Schedule: "@hourly"}
	for _, one := range change {
		one(c)
	}
	return c
}

func (f *fixture) set(c *kinesinv1.Cron) *kinesinv1.Cron {
	f.T.Helper()
	r, err := f.SetCron(f.Ctx, &kinesinv1.SetCronRequest{Cron: c})
	if err != nil {
		f.T.Fatal(err)
	}
	return r.Cron
}

// refused wants an error with a reason and parts of a text.
func refused(t *testing.T, err error, reason kinesinv1.Reason, says ...string) {
	t.Helper()
	p := api.ProblemOf(err)
	if p.GetReason() != reason {
		t.Errorf("%v, want %v", err, reason)
	}
	for _, text := range says {
		if !strings.Contains(p.GetText(), text) {
			t.Errorf("%q does not say %q", p.GetText(), text)
		}
	}
}

func times(micros []int64) string {
	var all []string
	for _, m := range micros {
		all = append(all, time.UnixMicro(m).UTC().Format("02T15:04:05"))
	}
	return strings.Join(all, " ")
}

func TestACronFromCreateToDelete(t *testing.T) {
	f := newFixture(t)
	made := f.set(nightly(func(c *kinesinv1.Cron) { c.Payload, c.Tags = []byte("x"), map[string]string{"a": "b"} }))
	if made.Version != 1 || made.Revision != 1 || made.CreatedBy != "ops" || made.Created != int64(inboundtest.Start) || made.Pause != nil {
		t.Errorf("created: %v", made)
	}
	if made.Zone != "UTC" || made.Gap != "shift" || made.Fold != "first" || made.Overlap != "skip" || made.CatchUp != "last" || made.CatchUpMax != 0 {
		t.Errorf("its defaults are not shown: %v", made)
	}
	if got := times(made.Next); got != "14T23:00:00 15T00:00:00 15T01:00:00 15T02:00:00 15T03:00:00" {
		t.Error(got)
	}

	f.Time.Advance(time.Minute)
	f.As("other", "*:*")
	changed := f.set(nightly(func(c *kinesinv1.Cron) { c.Version, c.Schedule, c.Zone = 1, "30 2 * * *", "Europe/Berlin" }))
	if changed.Version != 2 || changed.Revision != 2 || changed.UpdatedBy != "other" || changed.CreatedBy != "ops" || changed.Updated == changed.Created {
		t.Errorf("changed: %v", changed)
	}
	if got := times(changed.Next[:2]); got != "15T01:30:00 16T01:30:00" {
		t.Error(got)
	}

	paused, err := f.PauseCron(f.Ctx, &kinesinv1.PauseCronRequest{Name: "nightly", Reason: " moving ", Until: int64(f.Clock.Now().Add(time.Hour))})
	if err != nil || paused.Cron.Pause.GetReason() != "moving" || paused.Cron.Pause.By != "other" || paused.Cron.Revision != 3 || len(paused.Cron.Next) != 0 {
		t.Errorf("paused: %v %v", paused, err)
	}
	again, err := f.PauseCron(f.Ctx, &kinesinv1.PauseCronRequest{Name: "nightly", Reason: "moving", Until: paused.Cron.Pause.Until})
	if err != nil || again.Cron.Version != paused.Cron.Version {
		t.Errorf("a pause that is asked for again is another change: %v %v", again, err)
	}
	resumed, err := f.ResumeCron(f.Ctx, &kinesinv1.ResumeCronRequest{Name: "nightly"})
	if err != nil || resumed.Cron.Pause != nil || len(resumed.Cron.Next) != 5 || resumed.Cron.Schedule != "30 2 * * *" {
		t.Errorf("resumed: %v %v", resumed, err)
	}
	if again, err := f.ResumeCron(f.Ctx, &kinesinv1.ResumeCronRequest{Name: "nightly"}); err != nil || again.Cron.Version != resumed.Cron.Version {
		t.Errorf("resumed again: %v %v", again, err)
	}

	if _, err := f.DeleteCron(f.Ctx, &kinesinv1.DeleteCronRequest{Name: "nightly"}); err != nil {
		t.Error(err)
	}
	_, err = f.GetCron(f.Ctx, &kinesinv1.GetCronRequest{Name: "nightly"})
	refused(t, err, kinesinv1.Reason_REASON_NOT_FOUND, "no cron \"nightly\"")
}

// The same settings are no change, whether they are spelt out or left out, and also of an older version: the
// call may have been made before.
func TestSettingsThatAreThereAreNoChange(t *testing.T) {
	f := newFixture(t)
	f.set(nightly())
	f.set(nightly(func(c *kinesinv1.Cron) { c.Version, c.CatchUp = 1, "all" }))
	for what, c := range map[string]*kinesinv1.Cron{
		"again": nightly(func(c *kinesinv1.Cron) { c.Version, c.CatchUp = 1, "all" }),
		"spelt out": nightly(func(c *kinesinv1.Cron) {
			c.CatchUp, c.CatchUpMax, c.CatchUpWithin, c.Zone, c.Gap, c.Fold, c.Overlap = "all", 1000, (24 * time.Hour).Microseconds(), "UTC", "shift", "first", "skip"
		}),
		"with empty ones": nightly(func(c *kinesinv1.Cron) { c.CatchUp, c.Tags, c.Payload = "all", map[string]string{}, []byte{} }),
	} {
		r, err := f.SetCron(f.Ctx, &kinesinv1.SetCronRequest{Cron: c})
		if err != nil || !r.Duplicate || r.Cron.Version != 2 {
			t.Errorf("%s: %v %v", what, r, err)
		}
	}
}

func TestWhatACronMayNotBe(t *testing.T) {
	f := newFixture(t)
	f.Create(task.Lambda{Name: "sent", Mode: task.Deliver})
	hour := time.Hour.Microseconds()
	for what, c := range map[string]struct {
		change func(*kinesinv1.Cron)
		reason kinesinv1.Reason
		says   string
	}{
		"unknown lambda":   {func(c *kinesinv1.Cron) { c.Lambda = "nail" }, kinesinv1.Reason_REASON_UNKNOWN_LAMBDA, "nail"},
		"deliver lambda":   {func(c *kinesinv1.Cron) { c.Lambda = "sent" }, kinesinv1.Reason_REASON_UNSUPPORTED, "want a managed lambda"},
		"unknown priority": {func(c *kinesinv1.Cron) { c.Priority = "urgent" }, kinesinv1.Reason_REASON_INVALID, "high, normal, low"},
		"bad name":         {func(c *kinesinv1.Cron) { c.Name = "a/b" }, kinesinv1.Reason_REASON_INVALID, "cron name"},
		"bad expression":   {func(c *kinesinv1.Cron) { c.Schedule = "61 * * * *" }, kinesinv1.Reason_REASON_INVALID, "61"},
		"no expression":    {func(c *kinesinv1.Cron) { c.Schedule = "" }, kinesinv1.Reason_REASON_INVALID, "five fields"},
		"unknown zone":     {func(c *kinesinv1.Cron) { c.Zone = "Europe/Berln" }, kinesinv1.Reason_REASON_INVALID, "Europe/Berlin"},
		"end before start": {func(c *kinesinv1.Cron) {
			c.Start, c.End = int64(inboundtest.Start)+2*hour, int64(inboundtest.Start)+hour
		}, kinesinv1.Reason_REASON_INVALID, "is not after the start"},
		"ended":       {func(c *kinesinv1.Cron) { c.End = int64(inboundtest.Start) - hour }, kinesinv1.Reason_REASON_INVALID, "fires no more"},
		"before 1970": {func(c *kinesinv1.Cron) { c.Start = -1 }, kinesinv1.Reason_REASON_INVALID, "before 1970"},
		"jitter":      {func(c *kinesinv1.Cron) { c.Jitter = 1500 }, kinesinv1.Reason_REASON_INVALID, "whole milliseconds"},
		"overlap":     {func(c *kinesinv1.Cron) { c.Overlap = "both" }, kinesinv1.Reason_REASON_INVALID, "want allow, skip"},
		"catch-up":    {func(c *kinesinv1.Cron) { c.CatchUpMax = 5 }, kinesinv1.Reason_REASON_INVALID, "goes with all, not with last"},
		"payload":     {func(c *kinesinv1.Cron) { c.Payload = make([]byte, cron.PayloadBytesMax+1) }, kinesinv1.Reason_REASON_INVALID, "at most 65536"},
		"payload that grows": {
			func(c *kinesinv1.Cron) { c.Payload = []byte(strings.Repeat("{{nominal}}", 5000)) }, kinesinv1.Reason_REASON_TOO_LARGE,
			"payload of 125000 bytes, with the nominal time in it: want at most 100000",
		},
		"none": {func(c *kinesinv1.Cron) { c.Version = 7 }, kinesinv1.Reason_REASON_NOT_FOUND, "no cron"},
	} {
		t.Run(what, func(t *testing.T) {
			for _, dryRun := range []bool{false, true} {
				_, err := f.SetCron(f.Ctx, &kinesinv1.SetCronRequest{Cron: nightly(c.change), DryRun: dryRun})
				refused(t, err, c.reason, c.says)
			}
		})
	}
	_, err := f.SetCron(f.Ctx, &kinesinv1.SetCronRequest{})
	refused(t, err, kinesinv1.Reason_REASON_INVALID, "no cron given")
}

// A dry run answers what a cron would be, and leaves it as it is.
func TestADryRunSetsNothing(t *testing.T) {
	f := newFixture(t)
	r, err := f.SetCron(f.Ctx, &kinesinv1.SetCronRequest{Cron: nightly(), DryRun: true})
	if err != nil || r.Cron.Name != "nightly" || r.Duplicate {
		t.Errorf("%v %v", r, err)
	}
	_, err = f.GetCron(f.Ctx, &kinesinv1.GetCronRequest{Name: "nightly"})
	refused(t, err, kinesinv1.Reason_REASON_NOT_FOUND, "no cron")
	made := f.set(nightly())
	for _, change := range []func(*kinesinv1.Cron){
		func(c *kinesinv1.Cron) { c.Schedule = "@daily" },
		func(c *kinesinv1.Cron) { c.ManagedBy = "billing" },
	} {
		r, err := f.SetCron(f.Ctx, &kinesinv1.SetCronRequest{DryRun: true, Cron: nightly(change, func(c *kinesinv1.Cron) { c.Version = 1 })})
		now, errNow := f.GetCron(f.Ctx, &kinesinv1.GetCronRequest{Name: "nightly"})
		if err != nil || errNow != nil || proto.Equal(r.Cron, made) || !proto.Equal(now.Cron, made) {
			t.Errorf("%v %v; %v %v", r, err, now, errNow)
		}
	}
}

func TestANameThatIsTaken(t *testing.T) {
	f := newFixture(t)
	f.set(nightly())
	for what, c := range map[string]struct {
		change func(*kinesinv1.Cron)
		reason kinesinv1.Reason
		says   string
	}{
		"other settings":    {func(c *kinesinv1.Cron) { c.Schedule = "@daily" }, kinesinv1.Reason_REASON_EXISTS, "exists with other settings (schedule): want another name, or a change of its version 1 (kinesin cron set)"},
		"another set":       {func(c *kinesinv1.Cron) { c.Zone, c.ManagedBy = "Asia/Tokyo", "billing" }, kinesinv1.Reason_REASON_EXISTS, "settings (zone, managed_by): want"},
		"another lambda":    {func(c *kinesinv1.Cron) { c.Lambda = "pay" }, kinesinv1.Reason_REASON_EXISTS, "of another lambda"},
		"an older version":  {func(c *kinesinv1.Cron) { c.Version, c.Schedule = 7, "@daily" }, kinesinv1.Reason_REASON_STALE_SEQ, "at version 1, not at 7"},
		"moved to a lambda": {func(c *kinesinv1.Cron) { c.Version, c.Lambda = 1, "pay" }, kinesinv1.Reason_REASON_INVALID, "cannot change"},
	} {
		_, err := f.SetCron(f.Ctx, &kinesinv1.SetCronRequest{Cron: nightly(c.change)})
		t.Log(what)
		refused(t, err, c.reason, c.says)
	}
}

// A change that meets another one is made again on top of it, unless it is of one version.
func TestChangesThatMeet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		f.set(nightly())
		meet := func(times int) {
			f.before = func() {
				if times--; times < 0 {
					return
				}
				c, err := f.crons().Find(f.Ctx, "nightly")
				if err == nil {
					c.Now().Spec.FailuresMax++
					err = f.crons().Put(f.Ctx, c)
				}
				if err != nil {
					t.Error(err)
				}
			}
		}
		meet(3)
		paused, err := f.PauseCron(f.Ctx, &kinesinv1.PauseCronRequest{Name: "nightly", Reason: "x"})
		if err != nil || paused.Cron.FailuresMax != 3 || paused.Cron.Pause == nil {
			t.Errorf("%v %v", paused, err)
		}
		meet(1)
		_, err = f.SetCron(f.Ctx, &kinesinv1.SetCronRequest{Cron: nightly(func(c *kinesinv1.Cron) { c.Version, c.Schedule = paused.Cron.Version, "@daily" })})
		refused(t, err, kinesinv1.Reason_REASON_STALE_SEQ, "was changed meanwhile")
		meet(1 << 30)
		_, err = f.ResumeCron(f.Ctx, &kinesinv1.ResumeCronRequest{Name: "nightly"})
		refused(t, err, kinesinv1.Reason_REASON_UNAVAILABLE, "kept changing")
	})
}

func TestPausesThatAreRefused(t *testing.T) {
	f := newFixture(t)
	f.set(nightly())
	for _, c := range []struct {
		reason string
		until  task.Instant
		says   string
	}{
		{"", 0, "it is empty"},
		{"a\nb", 0, "on one line"},
		{"x", inboundtest.Start, "want a time to come"},
		{"x", inboundtest.Start.Add(-time.Hour), "want a time to come"},
		{"x", -1, "want a time to come"},
		{"x", inboundtest.Start.Add(11 * 366 * 24 * time.Hour), "within ten years"},
	} {
		_, err := f.PauseCron(f.Ctx, &kinesinv1.PauseCronRequest{Name: "nightly", Reason: c.reason, Until: int64(c.until)})
		refused(t, err, kinesinv1.Reason_REASON_INVALID, c.says)
	}
}

func TestAListHasWhatTheCallerMayRead(t *testing.T) {
	f := newFixture(t)
	f.set(nightly(func(c *kinesinv1.Cron) { c.Name, c.Payload = "b", []byte("secret") }))
	f.set(nightly(func(c *kinesinv1.Cron) { c.Name, c.Collection = "a", "x" }))
	f.set(nightly(func(c *kinesinv1.Cron) { c.Name, c.Lambda = "c", "pay" }))
	for _, c := range []struct{ grant, lambda, want string }{
		{"*:*", "", "a b c"}, {"*:*", "mail", "a b"}, {"read:pay", "", "c"}, {"read:pay", "mail", ""}, {"read:mail:x", "", "a"}, {"read:mail:y", "mail", ""}, {"operate:mail", "", ""},
	} {
		f.As("one", c.grant)
		r, err := f.ListCrons(f.Ctx, &kinesinv1.ListCronsRequest{Lambda: c.lambda})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, one := range r.Crons {
			names = append(names, one.Name)
			if one.Payload != nil || len(one.Next) != 1 {
				t.Errorf("a list has %v", one)
			}
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	_, err := f.ListCrons(f.Ctx, &kinesinv1.ListCronsRequest{Lambda: "nail"})
	refused(t, err, kinesinv1.Reason_REASON_UNKNOWN_LAMBDA, "nail")
}

func TestAListIsBounded(t *testing.T) {
	f := newFixture(t)
	spec := cron.Spec{Schedule: "DTSTART:20240101T000000 FREQ=YEARLY;BYMONTHDAY=" + strings.Repeat("01,", 300) + "1", Collection: strings.Repeat("x", 128)}
	for i := range 6000 {
		c := &cron.Cron{Name: fmt.Sprint("c", i), Lambda: "mail", Revisions: []cron.Revision{{Number: 1, Pause: &cron.Pause{Reason: "x"}, Spec: spec}}}
		if err := f.crons().Put(f.Ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	_, err := f.ListCrons(f.Ctx, &kinesinv1.ListCronsRequest{})
	refused(t, err, kinesinv1.Reason_REASON_TOO_LARGE, "want those of one lambda")
	if _, err := f.ListCrons(f.Ctx, &kinesinv1.ListCronsRequest{Lambda: "pay"}); err != nil {
		t.Error(err)
	}
}

func TestACronRunsOutOfTurn(t *testing.T) {
	f := newFixture(t)
	f.set(nightly(func(c *kinesinv1.Cron) {
		c.Zone, c.Priority, c.Collection, c.Tags, c.Payload = "Asia/Tokyo", "high", "reports", map[string]string{"a": "b"}, []byte(`{"at":"{{nominal}}","{{nominal}}":1}`)
	}))
	made := task.NewID(inboundtest.Start.Add(-time.Hour), 1, 2)
	for _, c := range []struct {
		request []byte
		nominal string
	}{{nil, "2023-11-15T07:13:20+09:00"}, {made[:], "2023-11-15T06:13:20+09:00"}} {
		f.asked = nil
		r, err := f.RunCron(f.Ctx, &kinesinv1.RunCronRequest{Name: "nightly", RequestId: c.request})
		if err != nil || r.Id != "k1" || len(f.asked) != 1 {
			t.Fatal(r, err)
		}
		got := f.asked[0].Items[0]
		if want := strings.ReplaceAll(`{"at":"T","T":1}`, "T", c.nominal); string(got.Payload) != want {
			t.Errorf("payload %s, want %s", got.Payload, want)
		}
		if got.Lambda != "mail" || got.Priority != "high" || got.Collection != "reports" || got.Tags["a"] != "b" || string(got.RequestId) != string(c.request) || got.Due != 0 || got.Delay != 0 {
			t.Errorf("%v", got)
		}
	}
	f.problem = &kinesinv1.Problem{Reason: kinesinv1.Reason_REASON_THROTTLED, Text: "slowly"}
	_, err := f.RunCron(f.Ctx, &kinesinv1.RunCronRequest{Name: "nightly"})
	refused(t, err, kinesinv1.Reason_REASON_THROTTLED, "slowly")
}

func TestTheLambdaOfACron(t *testing.T) {
	f := newFixture(t)
	f.set(nightly(func(c *kinesinv1.Cron) { c.Collection = "reports" }))
	if lambda, collection, err := f.LambdaOf(f.Ctx, "nightly"); err != nil || lambda != "mail" || collection != "reports" {
		t.Error(lambda, collection, err)
	}
	for _, name := range []string{"none", "", "a/b", strings.Repeat("x", 1000)} {
		if _, _, err := f.LambdaOf(f.Ctx, name); !errors.Is(err, api.ErrNotFound) {
			t.Errorf("%.10q: %v", name, err)
		}
	}
}

// A cron that is created again at the very instant at which one of its name was is another: its occurrences have ids of
// their own.
func TestACronThatIsCreatedAgainAtOnce(t *testing.T) {
	f := newFixture(t)
	lives := map[int64]bool{}
	for range 3 {
		lives[f.set(nightly()).Created] = true
		if _, err := f.DeleteCron(f.Ctx, &kinesinv1.DeleteCronRequest{Name: "nightly"}); err != nil {
			t.Fatal(err)
		}
	}
	if len(lives) != 3 {
		t.Errorf("created at %v: want three instants", lives)
	}
}

// Whoever writes six fields often means five, and hears of it whichever way the call came.
func TestSixFieldsAreSaid(t *testing.T) {
	f := newFixture(t)
	for schedule, want := range map[string]string{
		"0 */5 * * * *": "six fields, so the first is seconds; it fires next at 2023-11-14T22:15:00Z, 2023-11-14T22:20:00Z, 2023-11-14T22:25:00Z; leave out",
		"* * * * * *":   "it fires next at 2023-11-14T22:13:26Z", // not within five seconds, when nothing fires yet
		"*/5 * * * *":   "",
	} {
		r, err := f.SetCron(f.Ctx, &kinesinv1.SetCronRequest{Cron: nightly(func(c *kinesinv1.Cron) {
			c.Name, c.Schedule, c.Zone = fmt.Sprint("fields", len(want)), schedule, ""
		})})
		if err != nil || !strings.Contains(r.GetCron().GetWarning(), want) || (want == "") != (r.GetCron().GetWarning() == "") {
			t.Errorf("%s: %v, %q", schedule, err, r.GetCron().GetWarning())
		}
	}
}

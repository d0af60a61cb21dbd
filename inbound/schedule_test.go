package inbound_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/queue/queuetest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

const (
	isInvalid  = kinesinv1.Reason_REASON_INVALID
	isTooLarge = kinesinv1.Reason_REASON_TOO_LARGE
	isConflict = kinesinv1.Reason_REASON_KEY_CONFLICT
)

type item = kinesinv1.ScheduleItem

func TestRefusals(t *testing.T) {
	most := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		name   string
		change func(*item)
		reason kinesinv1.Reason // unspecified: accepted
		words  []string
	}{
		{name: "nothing special", change: func(*item) {}},
		{"unknown lambda", func(i *item) { i.Lambda = "nobody" }, kinesinv1.Reason_REASON_UNKNOWN_LAMBDA, []string{"nobody", "`kinesin lambda list`"}},
		{"bad lambda name", func(i *item) { i.Lambda = "a b" }, isInvalid, []string{"a b", "a-z, A-Z, 0-9"}},
		{"no lambda", func(i *item) { i.Lambda = "" }, isInvalid, []string{"1 to 64"}},
		{"due time and delay", func(i *item) { i.Due = int64(start) }, isInvalid, []string{"not both"}},
		{"due before 1970", func(i *item) { i.Delay, i.Due = 0, -1 }, isInvalid, []string{"1969-12-31", "before 2001"}},
		{"due in seconds", func(i *item) { i.Delay, i.Due = 0, int64(start)/1_000_000 }, isInvalid, []string{"before 2001", "want microseconds"}},
		{"due in milliseconds", func(i *item) { i.Delay, i.Due = 0, int64(start)/1000 }, isInvalid, []string{"before 2001", "want microseconds"}},
		{"due before 2001", func(i *item) { i.Delay, i.Due = 0, 978_307_199_999_999 }, isInvalid, []string{"2000-12-31T23:59:59Z"}},
		{name: "due in the past", change: func(i *item) { i.Delay, i.Due = 0, 978_307_200_000_000 }},
		{name: "delay in the past", change: func(i *item) { i.Delay = -5 }},
		{name: "delay so far in the past that it overflows", change: func(i *item) { i.Delay = -9_223_372_036_854_776 }},
		{name: "delay at the horizon", change: func(i *item) { i.Delay = horizon.Microseconds() }},
		{"delay beyond the horizon", func(i *item) { i.Delay = horizon.Microseconds() + 1 }, isInvalid, []string{"too far", "at most 1000h0m0s"}},
		{"delay that overflows", func(i *item) { i.Delay = math.MaxInt64 }, isInvalid, []string{"too far"}},
		{name: "due at the horizon", change: func(i *item) { i.Delay, i.Due = 0, int64(start.Add(horizon)) }},
		{"due beyond the horizon", func(i *item) { i.Delay, i.Due = 0, int64(start.Add(horizon))+1 }, isInvalid, []string{"too far"}},
		{"due at the end of time", func(i *item) { i.Delay, i.Due = 0, math.MaxInt64 }, isInvalid, []string{"too far"}},
		{name: "priority", change: func(i *item) { i.Priority = "high" }},
		{"unknown priority", func(i *item) { i.Priority = "urgent" }, isInvalid, []string{"urgent", "high, normal, low"}},
		{name: "longest key", change: func(i *item) { i.Key = most(api.KeyBytesMax) }},
		{"key too long", func(i *item) { i.Key = most(api.KeyBytesMax + 1) }, isInvalid, []string{"key of 257 bytes", "at most 256"}},
		{"key with a control character", func(i *item) { i.Key = "a\x00b" }, isInvalid, []string{"without control characters"}},
		{"key that is no text", func(i *item) { i.Key = "\xff" }, isInvalid, []string{"UTF-8"}},
		{name: "longest collection", change: func(i *item) { i.Collection = most(api.CollectionBytesMax) }},
		{"collection too long", func(i *item) { i.Collection = most(api.CollectionBytesMax + 1) }, isInvalid, []string{"collection of 129 bytes", "at most 128"}},
		{"collection with a line break", func(i *item) { i.Collection = "a\nb" }, isInvalid, []string{"control"}},
		{name: "largest payload", change: func(i *item) { i.Payload = make([]byte, payload) }},
		{"payload too large", func(i *item) { i.Payload = make([]byte, payload+1) }, isTooLarge, []string{"4097", "at most 4096"}},
		{name: "request id", change: func(i *item) { i.RequestId = uuid7(1) }},
		{"request id too short", func(i *item) { i.RequestId = uuid7(1)[:15] }, isInvalid, []string{"16 bytes", "version 7"}},
		{"request id of another time", func(i *item) { i.RequestId = append([]byte{0x7f}, uuid7(1)[1:]...) }, isInvalid, []string{"more than 5m0s ahead"}},
		{"request id too short, with a key", func(i *item) { i.Key, i.RequestId = "k", uuid7(1)[:15] }, isInvalid, []string{"16 bytes", "version 7"}},
		{"request id of another version", func(i *item) { i.RequestId = make([]byte, 16) }, isInvalid, []string{"version 7"}},
		{name: "most attempts", change: func(i *item) { i.MaxAttempts = task.AttemptsMax }},
		{"too many attempts", func(i *item) { i.MaxAttempts = task.AttemptsMax + 1 }, isInvalid, []string{"max attempts 1001", "1 to 1000"}},
		{name: "shortest timeout", change: func(i *item) { i.Timeout = task.TimeoutMin.Microseconds() }},
		{"timeout too short", func(i *item) { i.Timeout = task.TimeoutMin.Microseconds() - 1 }, isInvalid, []string{"timeout", "100ms"}},
		{"timeout below zero", func(i *item) { i.Timeout = -1 }, isInvalid, []string{"timeout"}},
		{"timeout that overflows", func(i *item) { i.Timeout = 18_446_744_073_709_552 + 1_000_000 }, isInvalid, []string{"timeout"}},
		{"backoff without a minimum", func(i *item) { i.BackoffMax = 1_000_000 }, isInvalid, []string{"backoff minimum"}},
		{"backoff upside down", func(i *item) { i.BackoffMin, i.BackoffMax = 2_000_000, 1_000_000 }, isInvalid, []string{"backoff maximum 1s", "2s"}},
		{name: "start just after the due time", change: func(i *item) { i.StartBefore = int64(start.Add(time.Minute)) + 1 }},
		{
			"start before the due time", func(i *item) { i.StartBefore = int64(start.Add(time.Minute)) }, isInvalid,
			[]string{"start before 2023-11-14T22:14:20Z is not after the due time 2023-11-14T22:14:20Z"},
		},
		{"start before 1970", func(i *item) { i.StartBefore = -1 }, isInvalid, []string{"not after the due time"}},
		{name: "tags", change: func(i *item) { i.Tags = map[string]string{"tenant": "acme", "empty": ""} }},
		{"tag name with a space", func(i *item) { i.Tags = map[string]string{"a b": ""} }, isInvalid, []string{"tag name", "a b", "1 to 64 bytes"}},
		{"tag value too long", func(i *item) { i.Tags = map[string]string{"a": most(task.TagValueBytesMax + 1)} }, isInvalid, []string{"257 bytes", "at most 256"}},
	} {
		run(t, func(f *fixture) {
			r := f.schedule(with(in(time.Minute), c.change))[0]
			if c.reason == kinesinv1.Reason_REASON_UNSPECIFIED {
				if r.Problem != nil || r.Id == "" || f.accepted != 1 || f.get(r.Id).Task == nil {
					t.Errorf("%s: %v, id %q, %d accepted", c.name, r.Problem, r.Id, f.accepted)
				}
				return
			}
			wantRefusal(t, c.name, r.Problem, c.reason, c.words...)
			if r.Id != "" || len(f.waitingRows()) != 0 || f.messages() != 0 || f.accepted != 0 || !slices.Equal(f.refused, []kinesinv1.Reason{c.reason}) {
				t.Errorf("%s: refused, but id %q, %d rows, %d messages; told %v", c.name, r.Id, len(f.waitingRows()), f.messages(), f.refused)
			}
		})
	}
}

func TestACallHasALimitedNumberOfItems(t *testing.T) {
	run(t, func(f *fixture) {
		for _, n := range []int{0, inbound.ScheduleItemsMax + 1} {
			_, err := f.Schedule(f.ctx, &kinesinv1.ScheduleRequest{Items: make([]*item, n)})
			wantError(t, "items", err, isInvalid, "1 to 10000")
		}
	})
}

func TestDueTimesAreWholeMillisecondsAndNeverEarlier(t *testing.T) {
	run(t, func(f *fixture) {
		f.time.Advance(123 * time.Microsecond)
		for _, c := range []struct {
			item *item
			want task.Instant
		}{
			{in(0), start},
			{in(time.Microsecond), start.Add(time.Millisecond)},
			{in(877 * time.Microsecond), start.Add(time.Millisecond)},
			{in(878 * time.Microsecond), start.Add(2 * time.Millisecond)},
			{&item{Lambda: "mail", Due: int64(start) - 5_000_000}, start},
			{&item{Lambda: "mail", Due: int64(start) + 60_000_001}, start.Add(60_001 * time.Millisecond)},
		} {
			r := f.schedule(c.item)[0]
			if r.Due != int64(c.want) || f.get(r.Id).Task.Due != int64(c.want) {
				t.Errorf("%v: due %v after the start, want %v", c.item, task.Instant(r.Due).Sub(start), c.want.Sub(start))
			}
		}
	})
}

func TestWhatIsDueSoonGoesToItsQueueAtOnce(t *testing.T) {
	run(t, func(f *fixture) {
		soon := f.accept(in(intake.NearDefault))
		if row := f.row(soon); row.State != task.Enqueued || row.Enqueues != 1 || row.Seq != 2 || f.messages() != 1 {
			t.Errorf("%s after %d sends, seq %d; %d messages", row.State, row.Enqueues, row.Seq, f.messages())
		}
		if wakeups := f.wakeupRows(); len(wakeups) != 1 || wakeups[0].State != task.Enqueued || wakeups[0].WakeRow != f.row(soon).WakeRow {
			t.Errorf("wake-up rows %+v", wakeups)
		}
		later := f.accept(in(intake.NearDefault + time.Millisecond))
		if row := f.row(later); !row.ID.IsZero() || len(f.waitingRows()) != 1 || f.messages() != 1 {
			t.Errorf("has a task row %v, %d wake-up rows, %d messages", !row.ID.IsZero(), len(f.waitingRows()), f.messages())
		}
		if !slices.Equal(f.added, []task.ID{f.idOf(later)}) || len(f.awake) != 0 || !slices.Equal(f.sent, []task.ID{f.idOf(soon)}) {
			t.Errorf("hints: added %v, awake %v, sent %v", f.added, f.awake, f.sent)
		}
	})
}

// A worker may have the message, and report a failure, before Send returns.
func TestTheSchedulerHearsOfAMessageBeforeAWorkerDoes(t *testing.T) {
	run(t, func(f *fixture) {
		heard := 0
		f.beforeSend = func() {
			if heard++; f.messages() != 0 {
				t.Error("the message was sent first")
			}
		}
		f.accept(in(0))
		if heard != 1 || f.messages() != 1 {
			t.Errorf("heard of %d, %d messages", heard, f.messages())
		}
	})
}

func TestAQueueThatIsNotNearlyEmptyTakesNoShortCut(t *testing.T) {
	run(t, func(f *fixture) {
		items := make([]*item, 12)
		for i := range items {
			items[i] = in(time.Second)
		}
		items[11].Priority = "low" // a queue of its own
		f.schedule(items...)
		if f.messages() != 9 || len(f.waitingRows()) != 3 {
			t.Errorf("%d messages, %d wake-up rows; want 8 and one on the other queue, 3", f.messages(), len(f.waitingRows()))
		}
	})
}

func TestAMessageThatCannotBeSentIsLeftToTheWakeUp(t *testing.T) {
	for _, fault := range []queuetest.Fault{queuetest.NotApplied, queuetest.AppliedButErrored} {
		run(t, func(f *fixture) {
			f.line.FailNext(queuetest.SendWrite, 1, fault)
			id := f.accept(in(time.Second))
			if row := f.row(id); row.State != task.Enqueued || !slices.Equal(f.awake, []task.ID{row.ID}) || !slices.Equal(f.sent, f.awake) {
				t.Errorf("%s, hints %v, sent %v", row.State, f.awake, f.sent)
			}
		})
	}
}

func TestAKeyedTaskHasItsRowFromTheStart(t *testing.T) {
	run(t, func(f *fixture) {
		keyed := func(d time.Duration) *item { return with(in(d), func(i *item) { i.Key = "k" }) }
		id := f.accept(keyed(time.Minute))
		row := f.row(id)
		if row.State != task.Scheduled || row.Wake != start.Add(time.Minute) || row.ID[6]>>4 != 8 || row.Key != "k" {
			t.Errorf("%s, wake-up in %v, id %s", row.State, row.Wake.Sub(start), row.ID)
		}
		oneWakeup := func() bool {
			all := f.wakeupRows()
			return len(all) == 1 && all[0].WakeRow == row.WakeRow && all[0].Key == "k"
		}
		if !oneWakeup() || !slices.Equal(f.awake, []task.ID{row.ID}) {
			t.Errorf("wake-up rows %+v, hints %v", f.wakeupRows(), f.awake)
		}
		for _, d := range []time.Duration{0, time.Minute, time.Hour} { // at any time, near or not
			again := f.schedule(keyed(d))[0]
			if again.Id != id || !again.Duplicate || again.Due != int64(row.Due) || again.Problem != nil {
				t.Errorf("in %v: %v", d, again)
			}
		}
		if f.messages() != 0 || f.accepted != 1 || !oneWakeup() {
			t.Errorf("%d messages, %d accepted, wake-up rows %+v", f.messages(), f.accepted, f.wakeupRows())
		}
	})
}

func TestAKeyIsOneTask(t *testing.T) {
	run(t, func(f *fixture) {
		base := func() *item {
			return with(in(time.Minute), func(i *item) { i.Key, i.Collection, i.Payload = "k", "c", []byte("hello") })
		}
		id := f.accept(base())
		for what, one := range map[string]struct {
			change func(*item)
			says   string
		}{
			"payload":           {func(i *item) { i.Payload = []byte("hallo") }, "another payload"},
			"no payload":        {func(i *item) { i.Payload = nil }, "another payload"},
			"large payload":     {func(i *item) { i.Payload = make([]byte, 100) }, "another payload"},
			"priority":          {func(i *item) { i.Priority = "high" }, "another priority"},
			"collection":        {func(i *item) { i.Collection = "d" }, "another collection"},
			"limit key":         {func(i *item) { i.LimitKey = "acme" }, "another limit key"},
			"shifted by a byte": {func(i *item) { i.Collection, i.Payload = "ch", []byte("ello") }, "another payload and another collection"},
		} {
			r := f.schedule(with(base(), one.change))[0]
			wantRefusal(t, what, r.Problem, isConflict, `"k"`, one.says)
			if r.Id != "" {
				t.Errorf("%s: refused with id %q", what, r.Id)
			}
		}
		if other := f.accept(with(base(), func(i *item) { i.Key = "k2" })); other == id {
			t.Error("another key, the same task")
		}
		if got := f.get(id); got.Task.State != "scheduled" || string(got.Task.Payload) != "hello" {
			t.Errorf("%v", got)
		}
	})
}

func TestAKeyHoldsUntilTheEndedTaskIsForgotten(t *testing.T) {
	run(t, func(f *fixture) {
		keyed := with(in(0), func(i *item) { i.Key, i.Payload = "k", make([]byte, 100) })
		id := f.accept(keyed)
		f.claim(id)
		ended := f.finish(id, task.OutcomeSuccess)
		if r := f.schedule(keyed)[0]; !r.Duplicate || r.Id != id {
			t.Errorf("while the ended task is kept: %v", r)
		}
		f.time.Advance(ended.ExpireAt.Sub(start))
		if n, err := f.store.Sweep(f.ctx, f.clock.Now(), 10); n != 1 || err != nil {
			t.Fatalf("swept %d, %v", n, err)
		}
		if r := f.schedule(keyed)[0]; r.Duplicate || r.Problem != nil {
			t.Errorf("after its retention: %v", r)
		}
	})
}

func TestKeysInOneBatch(t *testing.T) {
	run(t, func(f *fixture) {
		keyed := func(key, text string) *item {
			return with(in(time.Minute), func(i *item) { i.Key, i.Payload = key, []byte(strings.Repeat(text, 20)) })
		}
		r := f.schedule(keyed("a", "x"), keyed("a", "x"), keyed("a", "y"), keyed("b", "y"))
		if r[0].Duplicate || !r[1].Duplicate || r[1].Id != r[0].Id || r[3].Problem != nil {
			t.Errorf("%v", r)
		}
		wantRefusal(t, "third", r[2].Problem, isConflict)
		if got := f.get(r[0].Id).Task.Payload; !bytes.Equal(got, bytes.Repeat([]byte("x"), 20)) {
			t.Errorf("payload %q", got)
		}
	})
}

func TestARepeatedCallIsHarmless(t *testing.T) {
	for _, d := range []time.Duration{time.Second, time.Minute} {
		run(t, func(f *fixture) {
			once := &item{Lambda: "mail", Due: int64(start.Add(d)), RequestId: uuid7(1), Payload: make([]byte, 100)}
			first, again := f.schedule(once)[0], f.schedule(once)[0]
			if first.Duplicate || !again.Duplicate || first.Id != again.Id {
				t.Errorf("%v and %v", first, again)
			}
			if f.messages()+len(f.waitingRows()) != 1 || f.accepted != 1 {
				t.Errorf("%d messages, %d wake-up rows, %d accepted", f.messages(), len(f.waitingRows()), f.accepted)
			}
		})
	}
}

// A call whose caller goes while it is stored and calls again must not leave the task to the wake-up of an
// enqueued one.
func TestACallerWhoGoesAndComesBackFindsTheTaskInItsQueue(t *testing.T) {
	run(t, func(f *fixture) {
		ctx, gone := context.WithCancel(f.ctx)
		defer gone()
		f.rows.afterApply = gone
		once := &item{Lambda: "mail", RequestId: uuid7(1)}
		_, _ = f.Schedule(ctx, &kinesinv1.ScheduleRequest{Items: []*item{once}}) // the answer reaches nobody
		f.rows.afterApply = nil
		if r := f.schedule(once)[0]; r.Problem != nil || f.row(r.Id).State != task.Enqueued || f.messages() != 1 {
			t.Errorf("%v: %s, %d messages", r, f.row(r.Id).State, f.messages())
		}
		if len(f.awake) != 0 {
			t.Errorf("left to the wake-up: %v", f.awake)
		}
	})
}

// A delay counts from the server's clock, so a repeated call may come to another due time. The id with which it is
// answered is that of the task, as a handler has it, whatever became of the first call meanwhile.
func TestARepeatedCallHasTheIDOfTheTask(t *testing.T) {
	once := func(d time.Duration) *item { return with(in(d), func(i *item) { i.RequestId = uuid7(1) }) }
	call := func(f *fixture, r *kinesinv1.ScheduleRequest) string {
		f.t.Helper()
		response, err := f.Schedule(f.ctx, r)
		if err != nil || response.Results[0].Id == "" {
			f.t.Fatal(response, err)
		}
		return response.Results[0].Id
	}
	gated := func(_ *fixture, c *settings) { c.Start.Counted = func(uint32) bool { return true } }
	for name, change := range map[string]func(*fixture, *settings){"open": nil, "held by the scheduler": gated} {
		for _, d := range []time.Duration{0, time.Second, time.Minute} {
			for what, c := range map[string]struct {
				first, dispatched bool // the first call says so; it was answered by a dispatch before the second
			}{
				"nothing is said": {}, "the first says so": {first: true}, "dispatched between": {first: true, dispatched: true}, "nothing is said, dispatched between": {dispatched: true},
			} {
				runWith(t, change, func(f *fixture) {
					first := call(f, &kinesinv1.ScheduleRequest{Items: []*item{once(d)}, First: c.first})
					if c.dispatched {
						f.time.Advance(d)
						if err := f.dispatch(first); err != nil && !errors.Is(err, store.ErrConflict) {
							t.Fatal(err)
						}
					}
					f.time.Advance(time.Second)
					again := call(f, &kinesinv1.ScheduleRequest{Items: []*item{once(d)}, Again: c.first})
					f.time.Advance(time.Second)
					third := call(f, &kinesinv1.ScheduleRequest{Items: []*item{once(d)}, Again: true})
					for _, id := range []string{first, again} {
						if err := f.dispatch(id); !errors.Is(err, store.ErrConflict) {
							t.Errorf("%s, due in %v, %s: fired without a look at its task row: %v", name, d, what, err)
						}
					}
					row := f.row(again)
					if id := f.seal.SealTask(&row); again != id || third != id {
						t.Errorf("%s, due in %v, %s: the second call has %s and the third %s, a handler %s", name, d, what, again, third, id)
					}
					if (!c.first || c.dispatched) && again != first {
						t.Errorf("%s, due in %v, %s: two ids", name, d, what)
					}
				})
			}
		}
	}
}

// What is known to be the first call costs one write, and so does a call whose due time is the same each time.
func TestOnlyARepeatedCallCostsATaskRow(t *testing.T) {
	for what, c := range map[string]struct {
		change func(r *kinesinv1.ScheduleRequest)
		rows   bool
	}{
		"the first": {func(r *kinesinv1.ScheduleRequest) { r.First = true }, false},
		"a due time": {func(r *kinesinv1.ScheduleRequest) {
			r.Items[0].Delay, r.Items[0].Due = 0, int64(start.Add(time.Minute))
		}, false},
		"no request id":         {func(r *kinesinv1.ScheduleRequest) { r.Items[0].RequestId = nil }, false},
		"not known to be first": {func(*kinesinv1.ScheduleRequest) {}, true},
		"again":                 {func(r *kinesinv1.ScheduleRequest) { r.Again = true }, true},
	} {
		run(t, func(f *fixture) {
			r := &kinesinv1.ScheduleRequest{Items: []*item{with(in(time.Minute), func(i *item) { i.RequestId = uuid7(1) })}}
			c.change(r)
			response, err := f.Schedule(f.ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			if row := f.row(response.Results[0].Id); (!row.ID.IsZero()) != c.rows {
				t.Errorf("%s: a task row %v, want %v", what, !row.ID.IsZero(), c.rows)
			}
		})
	}
}

// A request id counts for its caller alone, and for the very task that it came with. So whoever uses it again,
// or uses the id of a task, for a task that is due before another one, does not take the other one's place.
func TestARequestIDOverwritesNoTaskThatWaits(t *testing.T) {
	const ada, bob = "ada", "bob"
	but := func(i *item, change func(*item)) *item { return with(proto.CloneOf(i), change) }
	waiting := with(in(time.Hour), func(i *item) { i.RequestId, i.Payload = uuid7(1), []byte("acknowledged") })
	bound := task.ID(uuid7(2)).BoundTo("mail", "c")
	for name, c := range map[string]struct {
		waiting *item
		caller  string
		change  func(i *item, id task.ID)
	}{
		"another caller":             {waiting, bob, func(i *item, _ task.ID) { i.Delay = 0 }},
		"another caller, later":      {waiting, bob, func(i *item, _ task.ID) { i.Delay /= 2 }},
		"another payload":            {waiting, ada, func(i *item, _ task.ID) { i.Payload = []byte("other") }},
		"another priority":           {waiting, ada, func(i *item, _ task.ID) { i.Priority = "high" }},
		"another delay":              {waiting, ada, func(i *item, _ task.ID) { i.Delay = 0 }},
		"another due time":           {but(waiting, func(i *item) { i.Delay, i.Due = 0, int64(start.Add(time.Hour)) }), ada, func(i *item, _ task.ID) { i.Due = int64(start) }},
		"another collection":         {waiting, ada, func(i *item, _ task.ID) { i.Collection = "c" }},
		"another limit key":          {waiting, ada, func(i *item, _ task.ID) { i.LimitKey = "k" }},
		"the id of the task":         {waiting, ada, func(i *item, id task.ID) { i.RequestId, i.Delay = id[:], 0 }},
		"the id of a server's":       {with(in(time.Hour), func(i *item) { i.Payload = []byte("acknowledged") }), ada, func(i *item, id task.ID) { i.RequestId, i.Delay = id[:], 0 }},
		"an id that a client chose":  {but(waiting, func(i *item) { i.RequestId, i.Collection = bound[:], "c" }), bob, func(i *item, id task.ID) { i.RequestId, i.Delay = id[:], 0 }},
		"what fits that, bound anew": {but(waiting, func(i *item) { i.RequestId, i.Collection = bound[:], "c" }), bob, func(i *item, id task.ID) { id = id.BoundTo("mail", "c"); i.RequestId, i.Delay = id[:], 0 }},
	} {
		run(t, func(f *fixture) {
			schedule := func(caller string, i *item) *kinesinv1.ScheduleResult {
				t.Helper()
				ctx := access.With(f.ctx, access.Caller{Identity: access.Identity{Name: caller, Grants: access.All()}})
				r, err := f.Schedule(ctx, &kinesinv1.ScheduleRequest{Items: []*item{i}})
				if err != nil || r.Results[0].Problem != nil {
					t.Fatalf("%s: %v, %v", name, r, err)
				}
				return r.Results[0]
			}
			first := schedule(ada, c.waiting)
			second := schedule(c.caller, but(c.waiting, func(i *item) { c.change(i, f.idOf(first.Id)) }))
			if second.Duplicate || f.idOf(second.Id) == f.idOf(first.Id) {
				t.Errorf("%s: it is taken for the task that waits: %v", name, second)
			}
			if again := schedule(ada, c.waiting); len(c.waiting.RequestId) > 0 && (!again.Duplicate || again.Id != first.Id) {
				t.Errorf("%s: the call again makes another task: %v", name, again)
			}
			if err := f.dispatch(first.Id); err != nil && !errors.Is(err, store.ErrConflict) { // it has a task row
				t.Errorf("%s: the task that waited: %v", name, err)
			}
			if got := f.get(first.Id).Task; string(got.GetPayload()) != "acknowledged" {
				t.Errorf("%s: the task that waited became %v", name, got)
			}
		})
	}
}

func TestARequestIDIsNotSharedByLambdas(t *testing.T) {
	run(t, func(f *fixture) {
		if _, err := f.CreateLambda(f.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "other"}}); err != nil {
			t.Fatal(err)
		}
		one := f.accept(with(in(0), func(i *item) { i.RequestId = uuid7(1) }))
		r := f.schedule(with(in(0), func(i *item) { i.Lambda, i.RequestId = "other", uuid7(1) }))[0]
		if r.Problem != nil || r.Duplicate || f.idOf(r.Id) == f.idOf(one) {
			t.Errorf("in another lambda: %v", r)
		}
	})
}

func TestPayloadsInlineAndApart(t *testing.T) {
	for _, n := range []int{0, 1, 16, 17, payload} {
		for _, d := range []time.Duration{time.Second, time.Minute} {
			run(t, func(f *fixture) {
				want := bytes.Repeat([]byte{7}, n)
				id := f.accept(with(in(d), func(i *item) { i.Payload = want }))
				got := f.get(id).Task
				if !bytes.Equal(got.Payload, want) || got.PayloadBytes != int64(n) {
					t.Errorf("%d bytes in %v: %d came back, said to be %d", n, d, len(got.Payload), got.PayloadBytes)
				}
				_, err := f.store.Payload(f.ctx, f.idOf(id))
				if apart := err == nil; apart != (n > 16) {
					t.Errorf("%d bytes in %v: stored apart %v", n, d, apart)
				}
			})
		}
	}
}

func TestABatchHasItsOutcomesInOrder(t *testing.T) {
	run(t, func(f *fixture) {
		r := f.schedule(
			in(time.Minute),
			with(in(0), func(i *item) { i.Lambda = "nobody" }),
			with(in(0), func(i *item) { i.Payload = make([]byte, 100) }),
			with(in(0), func(i *item) { i.Payload = make([]byte, payload+1) }),
			with(in(time.Minute), func(i *item) { i.Key = "k" }),
			with(in(time.Minute), func(i *item) { i.Key = "k" }),
			with(in(time.Minute), func(i *item) { i.Priority = "odd" }),
			in(time.Hour),
		)
		for i, want := range []kinesinv1.Reason{0, kinesinv1.Reason_REASON_UNKNOWN_LAMBDA, 0, isTooLarge, 0, 0, isInvalid, 0} {
			if r[i].Problem.GetReason() != want || (r[i].Id == "") != (want != 0) || r[i].Duplicate != (i == 5) {
				t.Errorf("item %d: %v, want %s", i, r[i], want)
			}
		}
		if f.accepted != 4 {
			t.Errorf("%d accepted", f.accepted)
		}
	})
}

func TestAFullStoreTakesNothingAndSaysSo(t *testing.T) {
	run(t, func(f *fixture) {
		f.memory.SetFull(true)
		for _, i := range []*item{in(0), in(time.Hour), with(in(time.Hour), func(i *item) { i.Key = "k" }), with(in(0), func(i *item) { i.Payload = make([]byte, 100) })} {
			r := f.schedule(i)[0]
			wantRefusal(t, "full", r.Problem, kinesinv1.Reason_REASON_FULL, "disk space", "still run")
		}
		if f.messages() != 0 || len(f.added)+len(f.awake) != 0 {
			t.Errorf("%d messages, hints %v %v", f.messages(), f.added, f.awake)
		}
	})
}

func TestEachWriteOfAScheduleFailingEitherWay(t *testing.T) {
	for _, kind := range []store.OpKind{store.PutWakeup, store.PutTask, store.PutPayload} {
		for _, how := range []storetest.Fault{storetest.NotApplied, storetest.AppliedButErrored} {
			for _, settled := range []bool{true, false} {
				run(t, func(f *fixture) {
					i := with(in(time.Minute), func(i *item) { i.Payload, i.RequestId = make([]byte, 100), uuid7(1) })
					if kind == store.PutTask {
						i.Delay = 0
					}
					f.driver.Fail(kind, 1, 1, how)
					if !settled {
						f.driver.FailReads(1000)
					}
					var r *kinesinv1.ScheduleResult
					f.during(time.Minute, func() { r = f.schedule(i)[0] })
					if !settled {
						wantRefusal(t, "unknown", r.Problem, kinesinv1.Reason_REASON_UNAVAILABLE, "try again")
						f.driver.FailReads(0)
						r = f.schedule(i)[0]
					}
					if r.Problem != nil || len(f.get(r.Id).GetTask().GetPayload()) != 100 {
						t.Errorf("kind %d, fault %d, settled %v: %v, %v", kind, how, settled, r, f.get(r.Id))
					}
					if id := f.idOf(r.Id); !slices.Contains(slices.Concat(f.added, f.awake, f.sent), id) {
						t.Errorf("kind %d, fault %d, settled %v: the scheduler was not told", kind, how, settled)
					}
				})
			}
		}
	}
}

func TestWhatNobodyMayReadOfAnErrorIsToldToTheHook(t *testing.T) {
	run(t, func(f *fixture) {
		if err := f.store.Close(); err != nil {
			t.Fatal(err)
		}
		r := f.schedule(in(time.Hour), in(time.Hour))
		wantRefusal(t, "closed", r[0].Problem, kinesinv1.Reason_REASON_UNAVAILABLE)
		if len(f.internal) != 0 {
			t.Errorf("told %v", f.internal)
		}
	})
}

func TestADrainingInboundTakesNothing(t *testing.T) {
	run(t, func(f *fixture) {
		f.Drain()
		f.Drain()
		_, err := f.Schedule(f.ctx, &kinesinv1.ScheduleRequest{Items: []*item{in(0)}})
		wantError(t, "draining", err, kinesinv1.Reason_REASON_UNAVAILABLE, "stopping")
	})
}

func TestOverridesOfATask(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(with(in(0), func(i *item) {
			i.MaxAttempts, i.Timeout, i.BackoffMin, i.BackoffMax = 2, 3_000_000, 4_000_000, 5_000_000
		}))
		want := task.Overrides{MaxAttempts: 2, Timeout: 3 * time.Second, BackoffMin: 4 * time.Second, BackoffMax: 5 * time.Second}
		if got := f.row(id).Overrides; got != want {
			t.Errorf("%+v", got)
		}
		if got := f.get(id).Task.MaxAttempts; got != 2 {
			t.Errorf("max attempts %d", got)
		}
	})
}

// A call that failed between its two writes leaves a payload behind, which must never become that of another
// call with the same key.
func TestAKeyedTaskNeverRunsWithThePayloadOfAFailedCall(t *testing.T) {
	run(t, func(f *fixture) {
		keyed := func(text string) *item {
			return with(in(time.Minute), func(i *item) { i.Key, i.Payload = "k", []byte(strings.Repeat(text, 50)) })
		}
		failing := true
		f.driver.FailMatching(func(op *store.Op) bool { return failing && op.Kind == store.PutTask }, 1, 100, storetest.NotApplied)
		f.during(time.Minute, func() {
			wantRefusal(t, "failed halfway", f.schedule(keyed("x"))[0].Problem, kinesinv1.Reason_REASON_UNAVAILABLE)
		})
		failing = false
		id := f.accept(keyed("y"))
		if got := string(f.get(id).Task.GetPayload()); got != strings.Repeat("y", 50) {
			t.Errorf("payload %q", got)
		}
		wantRefusal(t, "the first payload", f.schedule(keyed("x"))[0].Problem, isConflict)
	})
}

// The ended task of a key is deleted, with its payload, while a call with the same key is under way.
func TestAPayloadThatIsSweptUnderACallIsWrittenAgain(t *testing.T) {
	run(t, func(f *fixture) {
		keyed := with(in(time.Minute), func(i *item) { i.Key, i.Payload = "k", make([]byte, 100) })
		old := f.row(f.accept(keyed))
		ended := old
		ended.Seq, ended.State, ended.Wake, ended.Ended, ended.ExpireAt = old.Seq+1, task.Success, 0, start, start
		f.apply(store.Change(ended, false, false)...)
		if r := f.schedule(keyed)[0]; !r.Duplicate {
			t.Fatalf("%v", r)
		}
		if n, err := f.store.Sweep(f.ctx, f.clock.Now(), 1); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		leftover := store.Op{Kind: store.PutPayload, Task: task.Task{ID: old.PayloadID()}, Payload: make([]byte, 100)}
		f.apply(leftover)
		f.rows.beforeApply = func(ops []store.Op) {
			if ops[0].Kind == store.PutWakeup { // met, and gone before the rows are written
				f.apply(store.Op{Kind: store.DeletePayload, Task: leftover.Task})
			}
		}
		id := f.accept(keyed)
		if got := f.get(id).Task.GetPayload(); len(got) != 100 {
			t.Errorf("payload of %d bytes", len(got))
		}
	})
}

func TestAConflictLeavesNoPayloadBehind(t *testing.T) {
	run(t, func(f *fixture) {
		f.accept(with(in(time.Minute), func(i *item) { i.Key = "k" }))
		puts := 0
		f.rows.beforeApply = func(ops []store.Op) {
			for i := range ops {
				if ops[i].Kind == store.PutPayload {
					puts++
				}
			}
		}
		r := f.schedule(with(in(time.Minute), func(i *item) { i.Key, i.Payload = "k", make([]byte, 100) }))[0]
		wantRefusal(t, "other payload", r.Problem, isConflict)
		if puts != 0 {
			t.Errorf("%d payloads written for a task that was refused", puts)
		}
	})
}

// A client that calls again says how long ago it called first: its items stay the same, and so does its task.
func TestADelayCountsFromTheFirstCall(t *testing.T) {
	run(t, func(f *fixture) {
		ctx := access.With(f.ctx, access.Caller{Identity: access.Identity{Name: "ada", Grants: access.All()}})
		call := func(r *kinesinv1.ScheduleRequest) *kinesinv1.ScheduleResult {
			t.Helper()
			r.Items = []*item{with(in(time.Minute), func(i *item) { i.RequestId = uuid7(1) })}
			response, err := f.Schedule(ctx, r)
			if err != nil || response.Results[0].Problem != nil {
				t.Fatal(response, err)
			}
			return response.Results[0]
		}
		first := call(&kinesinv1.ScheduleRequest{First: true})
		f.time.Advance(20 * time.Second)
		again := call(&kinesinv1.ScheduleRequest{Again: true, Elapsed: (20 * time.Second).Microseconds()})
		if f.idOf(again.Id) != f.idOf(first.Id) || again.Due != first.Due || first.Due != int64(start.Add(time.Minute)) {
			t.Errorf("%v, then %v", first, again)
		}
		if late := call(&kinesinv1.ScheduleRequest{Again: true, Elapsed: time.Hour.Microseconds()}); late.Id != again.Id {
			t.Errorf("much later: %v", late)
		}
	})
}

package checker_test

import (
	"bytes"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/test/checker"
)

const ms = int64(1000)

var options = checker.Options{Settle: 50 * time.Millisecond, Ahead: 20 * time.Millisecond, Wake: 100 * time.Millisecond, OfKey: 1, AtOnce: 3}

// good is a task that was asked for at 0, due at 100 ms, and ran once in process 1.
func good() []checker.Event {
	return []checker.Event{
		{Kind: checker.Requested, At: 0, Nonce: "n"},
		{Kind: checker.Acked, At: 1 * ms, Nonce: "n", Task: "t", Due: 100 * ms},
		{Kind: checker.Started, At: 100 * ms, Nonce: "n", Task: "t", Attempt: 1, PID: 1},
		{Kind: checker.Ended, At: 200 * ms, Task: "t", Attempt: 1, PID: 1, Outcome: checker.OK},
		{Kind: checker.Reported, At: 9000 * ms, Task: "t", State: "success", Attempt: 1, Winner: 1},
	}
}

// rerun is the task run again as attempt 2 in process 2, to success, and reported so.
func rerun(at int64, first ...checker.Event) []checker.Event {
	return slices.Concat(good()[:3], first, []checker.Event{
		{Kind: checker.Started, At: at, Nonce: "n", Task: "t", Attempt: 2, PID: 2},
		{Kind: checker.Ended, At: at + 100*ms, Task: "t", Attempt: 2, PID: 2, Outcome: checker.OK},
		{Kind: checker.Reported, At: 9000 * ms, Task: "t", State: "success", Attempt: 2, Winner: 2},
	})
}

func edit(events []checker.Event, kind checker.Kind, change func(*checker.Event)) []checker.Event {
	events = slices.Clone(events)
	for i := range events {
		if events[i].Kind == kind {
			change(&events[i])
		}
	}
	return events
}

func without(events []checker.Event, kind checker.Kind) []checker.Event {
	return slices.DeleteFunc(slices.Clone(events), func(e checker.Event) bool { return e.Kind == kind })
}

func ended(at int64, outcome string) checker.Event {
	return checker.Event{Kind: checker.Ended, At: at, Task: "t", Attempt: 1, PID: 1, Outcome: outcome}
}

func happened(kind checker.Kind, at int64) checker.Event {
	return checker.Event{Kind: kind, At: at, PID: 1}
}

func reported(events []checker.Event, change func(*checker.Event)) []checker.Event {
	return edit(events, checker.Reported, change)
}

// beside are tasks with limit keys, each of which runs for 100 ms and starts some milliseconds after the one
// before it, in a process of its own.
func beside(apart int64, limitKeys ...string) []checker.Event {
	var all []checker.Event
	for i, key := range limitKeys {
		n, at := strconv.Itoa(i), int64(i)*apart*ms
		all = append(all,
			checker.Event{Kind: checker.Requested, Nonce: n, LimitKey: key},
			checker.Event{Kind: checker.Acked, Nonce: n, Task: n},
			checker.Event{Kind: checker.Started, At: at, Nonce: n, Task: n, Attempt: 1, PID: i + 1},
			checker.Event{Kind: checker.Ended, At: at + 100*ms, Task: n, Attempt: 1, PID: i + 1, Outcome: checker.OK},
			checker.Event{Kind: checker.Reported, At: 9000 * ms, Task: n, State: "success", Attempt: 1, Winner: 1})
	}
	return all
}

func TestGoodHistories(t *testing.T) {
	failed := rerun(300*ms, ended(200*ms, checker.Fail))
	for name, events := range map[string][]checker.Event{
		"nothing at all":                 nil,
		"one run":                        good(),
		"asked for, no answer":           good()[:1],
		"ran though never acknowledged":  without(without(good(), checker.Acked), checker.Reported),
		"failed, then success":           reported(failed, func(e *checker.Event) { e.Failures = 1 }),
		"snoozed, then success":          rerun(300*ms, ended(200*ms, checker.Snooze)),
		"worker died":                    reported(rerun(300*ms, happened(checker.Died, 200*ms)), func(e *checker.Event) { e.Lost = 1 }),
		"worker died before it reported": rerun(300*ms, ended(199*ms, checker.OK), happened(checker.Died, 200*ms)),
		"given back by a worker that drains": rerun(300*ms, happened(checker.Terminated, 150*ms),
			ended(200*ms, checker.Obeyed)),
		"result lost with the server": rerun(300*ms, ended(200*ms, checker.OK),
			checker.Event{Kind: checker.ServerDown, At: 230 * ms}, checker.Event{Kind: checker.ServerUp, At: 280 * ms}),
		"failure lost with the server": rerun(300*ms, ended(200*ms, checker.Fail),
			checker.Event{Kind: checker.ServerDown, At: 201 * ms}, checker.Event{Kind: checker.ServerUp, At: 280 * ms}),
		"stopped, taken over, woken": rerun(300*ms, happened(checker.Stopped, 150*ms), happened(checker.Continued, 350*ms),
			ended(360*ms, checker.Obeyed)),
		"one limit key after the other":     beside(100, "acme", "acme"),
		"limit keys beside each other":      beside(2, "acme", "umbrella", ""),
		"no more without a limit key":       beside(2, "", "", ""),
		"of one limit key after its worker": afterADeath(),
		"poisoned to the end": {
			{Kind: checker.Requested, Nonce: "n"},
			{Kind: checker.Acked, Nonce: "n", Task: "t", Want: "dead"},
			{Kind: checker.Started, At: 1, Nonce: "n", Task: "t", Attempt: 1, PID: 1},
			{Kind: checker.Ended, At: 2, Task: "t", Attempt: 1, PID: 1, Outcome: checker.Poisoned},
			{Kind: checker.Died, At: 3, PID: 1},
			{Kind: checker.Reported, At: 9, Task: "t", State: "dead", Attempt: 1, Lost: 1},
		},
		"cancelled, and the answer got lost": append(good()[:2],
			checker.Event{Kind: checker.Cancelling, At: 50 * ms, Task: "t"},
			checker.Event{Kind: checker.Reported, At: 9000 * ms, Task: "t", State: "cancelled"}),
		"cancel that came too late": append(good(), checker.Event{Kind: checker.Cancelling, At: 50 * ms, Task: "t"}),
		"a failure while it was being cancelled": append(good()[:3],
			checker.Event{Kind: checker.Cancelling, At: 150 * ms, Task: "t"}, ended(200*ms, checker.Fail),
			checker.Event{Kind: checker.Reported, At: 9000 * ms, Task: "t", State: "cancelled", Attempt: 1}),
		"cancelled in time": {
			{Kind: checker.Requested, Nonce: "n"},
			{Kind: checker.Acked, Nonce: "n", Task: "t"},
			{Kind: checker.Cancelled, At: 1, Task: "t"},
			{Kind: checker.Reported, At: 9, Task: "t", State: "cancelled"},
		},
	} {
		for _, v := range checker.Check(events, options) {
			t.Errorf("%s: %v", name, v)
		}
	}
}

func TestOutageThatCostsALease(t *testing.T) {
	events := reported(rerun(300*ms, ended(200*ms, checker.OK), checker.Event{Kind: checker.ServerDown, At: 150 * ms},
		checker.Event{Kind: checker.ServerUp, At: 250 * ms}), func(e *checker.Event) { e.Lost = 1 })
	for _, c := range []struct {
		lease time.Duration
		want  int
	}{{0, 1}, {101 * time.Millisecond, 1}, {100 * time.Millisecond, 0}} {
		o := options
		o.Lease = c.lease
		if found := checker.Check(events, o); len(found) != c.want {
			t.Errorf("with leases of %v: %v, want %d", c.lease, found, c.want)
		}
	}
}

// A server that calls what runs a task counts an attempt without an answer as a failure, but none more.
func TestAttemptsWithoutAnAnswer(t *testing.T) {
	second := func(e *checker.Event) { e.Attempt = 2 }
	unreached := reported(edit(edit(good(), checker.Started, second), checker.Ended, second), func(e *checker.Event) { e.Attempt, e.Winner = 2, 2 })
	died := rerun(300*ms, happened(checker.Died, 200*ms))
	down := rerun(300*ms, ended(200*ms, checker.Obeyed), checker.Event{Kind: checker.ServerDown, At: 190 * ms}, checker.Event{Kind: checker.ServerUp, At: 250 * ms})
	for name, c := range map[string]struct {
		events         []checker.Event
		failures, lost uint32
		called         bool
		want           int
	}{
		"nobody answered":                  {unreached, 1, 0, true, 0},
		"nobody answered, of a worker":     {unreached, 1, 0, false, 1},
		"nobody answered, counted twice":   {unreached, 2, 0, true, 1},
		"died":                             {died, 1, 0, true, 0},
		"died, of a worker":                {died, 1, 0, false, 1},
		"died, counted twice":              {died, 2, 0, true, 1},
		"the server was down":              {down, 0, 1, true, 0},
		"the server was down, of a worker": {down, 0, 1, false, 1},
	} {
		o := options
		o.Called = c.called
		found := checker.Check(reported(c.events, func(e *checker.Event) { e.Failures, e.Lost = c.failures, c.lost }), o)
		if len(found) != c.want || c.want == 1 && found[0].Rule != checker.Charged {
			t.Errorf("%s: %v", name, found)
		}
	}
}

// Claims that were on their way to a worker are lost with its leases: one in each time as long as a lease.
func TestOutageThatCostsClaims(t *testing.T) {
	events := reported(edit(good(), checker.Started, func(e *checker.Event) { e.Attempt = 3 }), func(e *checker.Event) {
		e.Attempt, e.Winner, e.Lost = 3, 3, 2
	})
	events = append(edit(events, checker.Ended, func(e *checker.Event) { e.Attempt = 3 }),
		checker.Event{Kind: checker.ServerDown, At: 2 * ms}, checker.Event{Kind: checker.ServerUp, At: 12 * ms})
	for lease, want := range map[time.Duration]int{0: 1, 6 * time.Millisecond: 1, 5 * time.Millisecond: 0} {
		o := options
		o.Lease = lease
		if found := checker.Check(events, o); len(found) != want {
			t.Errorf("with leases of %v: %v, want %d", lease, found, want)
		}
	}
}

// wrong has a history for every way in which a rule can be broken.
var wrong = []struct {
	name   string
	rule   checker.Rule
	events []checker.Event
}{
	{"acknowledged and forgotten", checker.Lost, good()[:2]},
	{"never started", checker.Lost, without(without(good(), checker.Started), checker.Ended)},
	{"never ended", checker.Lost, reported(good(), func(e *checker.Event) { e.State = "processing" })},
	{"given up", checker.Lost, reported(good(), func(e *checker.Event) { e.State = "dead" })},
	{"success that nobody had", checker.Lost, without(good(), checker.Ended)},
	{"cancelled, and waits on", checker.Lost, []checker.Event{
		{Kind: checker.Acked, Task: "t"},
		{Kind: checker.Cancelled, Task: "t"},
		{Kind: checker.Reported, Task: "t", State: "scheduled"},
	}},
	{"poison that was let go", checker.Lost, edit(good(), checker.Acked, func(e *checker.Event) { e.Want = "dead" })},

	{"nobody asked", checker.Invented, without(without(good(), checker.Requested), checker.Acked)},
	{"another's payload", checker.Invented, append(edit(good(), checker.Started, func(e *checker.Event) { e.Nonce = "m" }),
		checker.Event{Kind: checker.Requested, Nonce: "m"})},
	{"one request, two tasks", checker.Invented, append(good(),
		checker.Event{Kind: checker.Started, At: 300 * ms, Nonce: "n", Task: "u", Attempt: 1, PID: 1},
		checker.Event{Kind: checker.Ended, At: 400 * ms, Task: "u", Attempt: 1, PID: 1, Outcome: checker.OK})},
	{"end without a start", checker.Invented, append(good(), ended(300*ms, checker.OK))},
	{"effect without a start", checker.Invented, append(good(), checker.Event{Kind: checker.Effect, At: 50 * ms, Task: "t", Attempt: 1, PID: 1})},

	{"a microsecond early", checker.Early, edit(good(), checker.Started, func(e *checker.Event) { e.At = 100*ms - 1 })},

	{"both alive", checker.Overlap, rerun(190*ms, ended(200*ms, checker.Fail))},
	{"the first never ended", checker.Overlap, rerun(300 * ms)},
	{"before it was stopped", checker.Overlap, rerun(140*ms, happened(checker.Stopped, 150*ms))},
	{"long after it went on", checker.Overlap, rerun(600*ms, happened(checker.Stopped, 150*ms), happened(checker.Continued, 350*ms))},

	{"woken, and works on", checker.Late, rerun(300*ms, happened(checker.Stopped, 150*ms), happened(checker.Continued, 350*ms),
		checker.Event{Kind: checker.Effect, At: 460 * ms, Task: "t", Attempt: 1, PID: 1}, ended(470*ms, checker.Obeyed))},

	{"twice for nothing", checker.Duplicate, rerun(300*ms, ended(200*ms, checker.OK))},
	{"again though fatal", checker.Duplicate, rerun(300*ms, ended(200*ms, checker.Fatal))},
	{"fault long after the result", checker.Duplicate, rerun(300*ms, ended(200*ms, checker.OK), happened(checker.Died, 251*ms))},
	{"outage over before the claim", checker.Duplicate, rerun(300*ms, ended(200*ms, checker.OK),
		checker.Event{Kind: checker.ServerDown, At: 10 * ms}, checker.Event{Kind: checker.ServerUp, At: 79 * ms})},

	{"same number again", checker.Fencing, edit(rerun(300*ms, ended(200*ms, checker.Fail)), checker.Started,
		func(e *checker.Event) { e.Attempt = 1 })},
	{"number that the server forgot", checker.Fencing, reported(rerun(300*ms, ended(200*ms, checker.Fail)),
		func(e *checker.Event) { e.Attempt = 1 })},

	{"no attempt recorded", checker.Result, reported(good(), func(e *checker.Event) { e.Winner = 0 })},
	{"late success accepted", checker.Result, reported(rerun(300*ms, happened(checker.Stopped, 150*ms), happened(checker.Continued, 350*ms),
		ended(360*ms, checker.OK)), func(e *checker.Event) { e.Winner = 1 })},
	{"result of one that failed", checker.Result, edit(good(), checker.Ended, func(e *checker.Event) { e.Outcome = checker.Fail })},

	{"failure charged for a dead worker", checker.Charged, reported(rerun(300*ms, happened(checker.Died, 200*ms)),
		func(e *checker.Event) { e.Failures = 1 })},
	{"failure not charged", checker.Charged, rerun(300*ms, ended(200*ms, checker.Fail))},
	{"lost worker out of nothing", checker.Charged, reported(good(), func(e *checker.Event) { e.Lost = 1 })},
	{"one death counted twice", checker.Charged, reported(rerun(300*ms, happened(checker.Died, 200*ms)),
		func(e *checker.Event) { e.Lost = 2 })},

	{"two of a limit key", checker.KeyLimit, beside(2, "acme", "acme")},
	{"more than all may", checker.Quota, beside(2, "", "", "", "")},

	{"started after the cancel", checker.AfterCancel, append(good(), checker.Event{Kind: checker.Cancelled, At: 50 * ms, Task: "t"})},
}

func TestWrongHistories(t *testing.T) {
	for _, w := range wrong {
		found := checker.Check(w.events, options)
		if !slices.ContainsFunc(found, func(v checker.Violation) bool { return v.Rule == w.rule }) {
			t.Errorf("%s: want a breach of %q, found %v", w.name, w.rule, found)
		}
	}
}

func TestEveryRuleCanFail(t *testing.T) {
	for _, rule := range checker.Rules() {
		broken := false
		for _, w := range wrong {
			broken = broken || w.rule == rule
		}
		if !broken {
			t.Errorf("no history breaks %q", rule)
		}
	}
}

func TestOrderOfEventsDoesNotMatter(t *testing.T) {
	events := rerun(300*ms, ended(200*ms, checker.OK), happened(checker.Died, 210*ms))
	slices.Reverse(events)
	for _, v := range checker.Check(events, options) {
		t.Error(v)
	}
}

// afterADeath are two tasks of a limit key: the process of the first one dies, the second one starts, and
// then the first one again.
func afterADeath() []checker.Event {
	all := without(beside(100, "acme"), checker.Ended)
	all = append(all, happened(checker.Died, 50*ms),
		checker.Event{Kind: checker.Started, At: 200 * ms, Nonce: "0", Task: "0", Attempt: 2, PID: 3},
		checker.Event{Kind: checker.Ended, At: 250 * ms, Task: "0", Attempt: 2, PID: 3, Outcome: checker.OK})
	all = reported(all, func(e *checker.Event) { e.Attempt, e.Winner, e.Lost = 2, 2, 1 })
	return append(all, beside(100, "acme", "acme")[5:]...)
}

func TestMostAtOnce(t *testing.T) {
	byKey, all := checker.MostAtOnce(beside(2, "acme", "umbrella", "acme", ""))
	if want := map[string]int{"acme": 2, "umbrella": 1, "": 1}; !maps.Equal(byKey, want) || all != 4 {
		t.Errorf("got %v, %d, want %v, 4", byKey, all, want)
	}
}

func TestShortfalls(t *testing.T) {
	// The first one dies at 50 ms. The second one runs from 100 to 200 ms, and then the first one again.
	for n, want := range map[int][]checker.Shortfall{
		1: {{LimitKey: "acme", From: 50 * ms, To: 100 * ms}},
		2: {{LimitKey: "acme", From: 0, To: 200 * ms}},
	} {
		if got := checker.Shortfalls(afterADeath(), n); !slices.Equal(got, want) {
			t.Errorf("with %d: %v, want %v", n, got, want)
		}
	}
	failed := edit(rerun(300*ms, ended(200*ms, checker.Fail)), checker.Requested, func(e *checker.Event) { e.LimitKey = "acme" })
	if got := checker.Shortfalls(failed, 1); len(got) != 0 {
		t.Errorf("while a task waits for its retry: %v", got)
	}
}

func TestLinesAreReadBack(t *testing.T) {
	var log bytes.Buffer
	for _, e := range good() {
		log.Write(e.Line())
	}
	events, err := checker.Read(&log)
	if err != nil || !slices.Equal(events, good()) {
		t.Errorf("read %v, %v", events, err)
	}
	if _, err := checker.Read(strings.NewReader(`{"kind":"star`)); err == nil {
		t.Error("want an error for a line that was cut")
	}
}

func TestSummary(t *testing.T) {
	got := checker.Summarize(append(rerun(300*ms, happened(checker.Died, 200*ms)), checker.Event{Kind: checker.ServerDown}))
	if want := (checker.Summary{Acked: 1, Started: 2, Ended: 1, Repeated: 1, Reported: 1, Deaths: 1, ServerKills: 1}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

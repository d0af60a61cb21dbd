package cron

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

func at(t *testing.T, text string) task.Instant {
	t.Helper()
	if text == "" {
		return 0
	}
	parsed, err := time.Parse(time.RFC3339, "2026-03-01T"+text+"Z")
	if err != nil {
		t.Fatal(err)
	}
	return task.InstantOf(parsed)
}

// each is a cron that fires every ten minutes, in charge since midnight.
func each(t *testing.T, change func(*Spec)) *Cron {
	t.Helper()
	c := &Cron{Name: "tick", Revisions: []Revision{{Number: 1, From: at(t, "00:00:00"), Spec: Spec{Schedule: "*/10 * * * *"}}}}
	if change != nil {
		change(&c.Revisions[0].Spec)
	}
	return c
}

func TestDecisions(t *testing.T) {
	live := Past{Live: true, Started: true}
	for name, c := range map[string]struct {
		spec        func(*Spec)
		before, ran Past
		now         string // when 01:00 is decided
		fate        Fate
		next        string
		reason      string
		cancel      bool
	}{
		"in time":                           {now: "01:00:00", fate: Run, next: "01:10:00"},
		"ahead of its time":                 {now: "00:59:59", fate: Run, next: "01:10:00"},
		"the one before is not decided":     {now: "01:00:00", before: Past{Undecided: true}, fate: Wait},
		"the one before runs":               {now: "01:00:00", before: live, fate: Skip, next: "01:10:00", reason: "has not ended (overlap skip)"},
		"one runs, the one before skipped":  {now: "01:00:00", before: Past{Skipped: true}, ran: live, fate: Skip, next: "01:10:00", reason: "has not ended"},
		"one runs that counts no more":      {now: "01:00:00", before: Past{Succeeded: true}, ran: live, fate: Run, next: "01:10:00"},
		"allow":                             {spec: func(s *Spec) { s.Overlap = OverlapAllow }, now: "01:00:00", before: live, fate: Run, next: "01:10:00"},
		"queue":                             {spec: func(s *Spec) { s.Overlap = OverlapQueue }, now: "01:00:00", before: live, fate: Wait},
		"queue for long":                    {spec: func(s *Spec) { s.Overlap = OverlapQueue }, now: "03:00:00", before: live, fate: Wait},
		"queued for long":                   {spec: func(s *Spec) { s.Overlap, s.CatchUp = OverlapQueue, CatchUpNone }, now: "01:09:30", before: Past{Ended: at(t, "01:09:00")}, fate: Run, next: "01:10:00"},
		"queued, a later one too":           {spec: func(s *Spec) { s.Overlap, s.CatchUp = OverlapQueue, CatchUpNone }, now: "03:00:30", before: Past{Ended: at(t, "03:00:00")}, fate: Skip, next: "03:00:00", reason: "a later one waited too (overlap queue)"},
		"replaced while one ran":            {spec: func(s *Spec) { s.Overlap = OverlapReplace }, now: "01:30:30", before: Past{Ended: at(t, "01:30:00")}, fate: Skip, next: "01:30:00", reason: "(overlap replace)"},
		"queued, one skipped since":         {spec: func(s *Spec) { s.Overlap = OverlapQueue }, now: "01:10:30", before: Past{Skipped: true}, ran: Past{Ended: at(t, "01:10:30")}, fate: Skip, next: "01:10:00", reason: "(overlap queue)"},
		"queued, all":                       {spec: func(s *Spec) { s.Overlap, s.CatchUp = OverlapQueue, CatchUpAll }, now: "03:00:30", before: Past{Ended: at(t, "03:00:00")}, fate: Run, next: "01:10:00"},
		"queued, all at most 3":             {spec: func(s *Spec) { s.Overlap, s.CatchUp, s.CatchUpMax = OverlapQueue, CatchUpAll, 3 }, now: "01:35:00", before: Past{Ended: at(t, "01:35:00")}, fate: Skip, next: "01:10:00", reason: "catch-up max"},
		"cancel":                            {spec: func(s *Spec) { s.Overlap = OverlapCancel }, now: "01:00:00", before: live, fate: Wait, cancel: true},
		"replace what runs":                 {spec: func(s *Spec) { s.Overlap = OverlapReplace }, now: "01:00:00", before: live, fate: Wait},
		"replace what waits":                {spec: func(s *Spec) { s.Overlap = OverlapReplace }, now: "01:00:00", before: Past{Live: true}, fate: Wait, cancel: true},
		"a minute late":                     {now: "01:01:00", fate: Run, next: "01:10:00"},
		"late, none later":                  {now: "01:09:59", fate: Run, next: "01:10:00"},
		"late, some later":                  {now: "01:35:00", fate: Skip, next: "01:30:00", reason: "catch-up last"},
		"a day late":                        {now: "23:59:00", fate: Skip, next: "23:50:00", reason: "catch-up last"},
		"late, as one comes":                {now: "01:30:30", fate: Skip, next: "01:20:00", reason: "catch-up last"},
		"the last one, as one comes":        {now: "01:10:30", fate: Run, next: "01:10:00"},
		"none, a minute late":               {spec: func(s *Spec) { s.CatchUp = CatchUpNone }, now: "01:01:00", fate: Run, next: "01:10:00"},
		"none, later":                       {spec: func(s *Spec) { s.CatchUp = CatchUpNone }, now: "01:01:01", fate: Skip, next: "01:10:00", reason: "catch-up none"},
		"none, as one comes":                {spec: func(s *Spec) { s.CatchUp = CatchUpNone }, now: "01:30:30", fate: Skip, next: "01:30:00", reason: "catch-up none"},
		"all":                               {spec: func(s *Spec) { s.CatchUp = CatchUpAll }, now: "01:35:00", fate: Run, next: "01:10:00"},
		"all, while one runs":               {spec: func(s *Spec) { s.CatchUp = CatchUpAll }, now: "01:35:00", before: live, fate: Wait},
		"all, at most 2":                    {spec: func(s *Spec) { s.CatchUp, s.CatchUpMax = CatchUpAll, 2 }, now: "01:35:00", fate: Skip, next: "01:20:00", reason: "catch-up max"},
		"all, at most 4":                    {spec: func(s *Spec) { s.CatchUp, s.CatchUpMax = CatchUpAll, 4 }, now: "01:35:00", fate: Run, next: "01:10:00"},
		"all within 20 m":                   {spec: func(s *Spec) { s.CatchUp, s.CatchUpWithinMS = CatchUpAll, 20*60_000 }, now: "01:35:00", fate: Skip, next: "01:20:00", reason: "catch-up within"},
		"all within 15 m, one at that time": {spec: func(s *Spec) { s.CatchUp, s.CatchUpWithinMS = CatchUpAll, 15*60_000 }, now: "01:35:00", fate: Skip, next: "01:20:00", reason: "catch-up within"},
		"its end comes":                     {spec: func(s *Spec) { s.End = at(t, "01:10:00") }, now: "01:00:00", fate: Run},
	} {
		t.Run(name, func(t *testing.T) {
			o := &task.Occurrence{Cron: "tick", At: task.Firing{Revision: 1, Nominal: at(t, "01:00:00")}}
			d, err := each(t, c.spec).Decide(o, o.At.Nominal, &c.before, &c.ran, at(t, c.now))
			if err != nil {
				t.Fatal(err)
			}
			if d.Fate != c.fate || d.Next != at(t, c.next) || d.Cancel != c.cancel || !strings.Contains(d.Reason, c.reason) || d.Reason != "" && c.reason == "" {
				t.Errorf("%+v, next %s", d, d.Next.Time().UTC())
			}
		})
	}
}

// Nominal times in a pause were missed, however short it was.
// What was missed is late by more than a minute, however short the time between two is: of that none runs, or the last
// one, or all. What is late by less runs as ever.
func TestCatchUpOfEveryPeriod(t *testing.T) {
	for _, period := range []string{"1s", "5s", "29s", "1m", "61s", "10m"} {
		for _, jitter := range []int64{0, 45_000} {
			for _, outage := range []time.Duration{10 * time.Second, 59 * time.Second, 66 * time.Second, 3 * time.Minute, 12 * time.Minute} {
				runs := map[CatchUp][]task.Instant{}
				down := at(t, "01:00:00")
				up := down.Add(outage)
				var missed, due []task.Instant
				for _, catchUp := range []CatchUp{CatchUpNone, CatchUpLast, CatchUpAll} {
					c := each(t, func(s *Spec) {
						s.Schedule, s.CatchUp, s.JitterMS, s.Overlap, s.CatchUpMax = "@every "+period, catchUp, jitter, OverlapAllow, 100_000
					})
					s, err := c.Revisions[0].Spec.Parse(c.Name)
					if err != nil {
						t.Fatal(err)
					}
					times := nominals{s, c.untilOf(&c.Revisions[0]), 0}
					first := times.after(down)
					missed, due = nil, nil
					for n := first; n <= up; n = times.after(n) {
						switch late := up.Sub(times.due(n)); {
						case late > LateAfter:
							missed = append(missed, n)
						case late >= 0:
							due = append(due, n)
						}
					}
					for n := first; n != 0 && n <= up; {
						d, err := c.Decide(&task.Occurrence{At: task.Firing{Revision: 1, Nominal: n}}, times.due(n), &Past{Succeeded: true}, &Past{}, up)
						if err != nil {
							t.Fatal(err)
						}
						if d.Fate == Run && times.due(n) <= up {
							runs[catchUp] = append(runs[catchUp], n)
						}
						n = d.Next
					}
				}
				last := missed[max(0, len(missed)-1):]
				for catchUp, want := range map[CatchUp][]task.Instant{CatchUpNone: due, CatchUpLast: slices.Concat(last, due), CatchUpAll: slices.Concat(missed, due)} {
					slices.Sort(want) // with a jitter they are due in another order
					if !slices.Equal(runs[catchUp], want) {
						t.Errorf("@every %s, out for %s, catch-up %s: %d run, want %d", period, outage, catchUp, len(runs[catchUp]), len(want))
					}
				}
			}
		}
	}
}

func TestDecisionsAfterAPause(t *testing.T) {
	for name, one := range map[string]struct {
		spec    Spec
		until   string // of the pause
		nominal string
		before  Past
		fate    Fate
		next    string
	}{
		"none":                {spec: Spec{CatchUp: CatchUpNone}, nominal: "01:00:00", fate: Skip, next: "01:00:30"},
		"none, after it":      {spec: Spec{CatchUp: CatchUpNone}, nominal: "01:00:30", fate: Run, next: "01:00:40"},
		"none, ends earlier":  {spec: Spec{CatchUp: CatchUpNone}, nominal: "01:00:00", until: "01:00:15", fate: Skip, next: "01:00:20"},
		"last":                {spec: Spec{}, nominal: "01:00:00", fate: Skip, next: "01:00:20"},
		"the last":            {spec: Spec{}, nominal: "01:00:20", fate: Run, next: "01:00:30"},
		"last, ends earlier":  {spec: Spec{}, nominal: "01:00:00", until: "01:00:15", fate: Skip, next: "01:00:10"},
		"last, after its end": {spec: Spec{}, nominal: "01:00:20", until: "01:00:15", fate: Run, next: "01:00:30"},
		"all":                 {spec: Spec{CatchUp: CatchUpAll}, nominal: "01:00:00", fate: Run, next: "01:00:10"},
		"all, while one runs": {spec: Spec{CatchUp: CatchUpAll}, nominal: "01:00:10", before: Past{Live: true}, fate: Wait},
		"all, at most 2":      {spec: Spec{CatchUp: CatchUpAll, CatchUpMax: 2}, nominal: "01:00:00", fate: Skip, next: "01:00:10"},
		"all, two in it":      {spec: Spec{CatchUp: CatchUpAll, CatchUpMax: 2}, nominal: "01:00:00", until: "01:00:15", fate: Run, next: "01:00:10"},
	} {
		t.Run(name, func(t *testing.T) {
			one.spec.Schedule = "*/10 * * * * *"
			c := &Cron{Name: "tick", Revisions: []Revision{{Number: 1, From: at(t, "00:00:00"), Spec: one.spec}}}
			resumed := at(t, "01:00:25")
			if err := errors.Join(c.PauseAt(Pause{Reason: "x", Until: at(t, one.until)}, at(t, "00:59:50")), c.Resume(resumed)); err != nil {
				t.Fatal(err)
			}
			now := max(resumed, at(t, one.nominal))
			o := &task.Occurrence{Cron: "tick", At: task.Firing{Revision: 3, Nominal: at(t, one.nominal)}}
			d, err := c.Decide(o, o.At.Nominal, &one.before, &Past{}, now)
			if err != nil || d.Fate != one.fate || d.Next != at(t, one.next) {
				t.Errorf("%+v, next %s, %v", d, d.Next.Time().UTC(), err)
			}
		})
	}
}

func TestWhoIsInCharge(t *testing.T) {
	c := each(t, nil)
	if err := c.Change(Spec{Schedule: "*/5 * * * *"}, at(t, "01:04:55")); err != nil { // in charge after 01:05
		t.Fatal(err)
	}
	for _, one := range []struct {
		revision uint64
		nominal  string
		want     bool
	}{
		{1, "00:00:00", false},
		{1, "00:10:00", true},
		{1, "01:00:00", true},
		{1, "01:05:00", true},
		{1, "01:10:00", false},
		{2, "01:05:00", false},
		{2, "01:10:00", true},
		{3, "01:10:00", false},
	} {
		if got := c.InCharge(one.revision, at(t, one.nominal)) != nil; got != one.want {
			t.Errorf("revision %d at %s: %v", one.revision, one.nominal, got)
		}
	}
	o := &task.Occurrence{At: task.Firing{Revision: 1, Nominal: at(t, "01:00:00")}}
	if d, err := c.Decide(o, o.At.Nominal, &Past{}, &Past{}, o.At.Nominal); err != nil || d.Fate != Run || d.Next != 0 {
		t.Errorf("the last of the first revision: %+v, %v", d, err)
	}
	o.At.Nominal = at(t, "01:10:00")
	if d, err := c.Decide(o, o.At.Nominal, &Past{}, &Past{}, o.At.Nominal); err != nil || d.Fate != Skip || !strings.Contains(d.Reason, "changed") {
		t.Errorf("one of the first revision that comes later: %+v, %v", d, err)
	}
}

func TestAPauseAndItsEnd(t *testing.T) {
	c := each(t, nil)
	if err := c.PauseAt(Pause{Reason: "db maintenance"}, at(t, "01:04:55")); err != nil {
		t.Fatal(err)
	}
	if err := c.Change(Spec{Schedule: "*/5 * * * *"}, at(t, "02:00:00")); err != nil || c.Now().Pause == nil {
		t.Fatal(err)
	}
	o := &task.Occurrence{At: task.Firing{Revision: 1, Nominal: at(t, "02:10:00")}}
	if d, err := c.Decide(o, o.At.Nominal, &Past{}, &Past{}, o.At.Nominal); err != nil || d.Fate != Skip || !strings.Contains(d.Reason, "db maintenance") {
		t.Errorf("while it is paused: %+v, %v", d, err)
	}
	if err := c.Resume(at(t, "03:00:00")); err != nil {
		t.Fatal(err)
	}
	if r := c.Now(); len(c.Revisions) != 2 || r.Number != 4 || r.From != at(t, "01:05:00") || r.Pause != nil || r.Spec.Schedule != "*/5 * * * *" {
		t.Errorf("%+v", c.Revisions)
	}
}

func TestFailuresInARow(t *testing.T) {
	c := each(t, func(s *Spec) { s.FailuresMax = 3 })
	decide := func(o *task.Occurrence, before, ran Past) Decision {
		o.At = task.Firing{Revision: 1, Nominal: at(t, "01:00:00")}
		d, err := c.Decide(o, o.At.Nominal, &before, &ran, o.At.Nominal)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	failed, skipped := Past{Failed: true}, Past{Skipped: true}
	for _, one := range []struct {
		o           task.Occurrence
		before, ran Past
		want        uint32
	}{
		{task.Occurrence{Failed: 1}, failed, failed, 3},
		{task.Occurrence{Failed: 2}, failed, Past{Succeeded: true}, 0},
		{task.Occurrence{Failed: 2}, skipped, failed, 3},
		{task.Occurrence{Failed: 1}, skipped, failed, 0},
		{task.Occurrence{Failed: 2}, Past{}, failed, 3},
		{task.Occurrence{Failed: 2}, Past{Succeeded: true}, failed, 0},
	} {
		if d := decide(&one.o, one.before, one.ran); d.Pause != one.want || d.Pause > 0 && (d.Fate != Skip || d.Next != 0) {
			t.Errorf("%+v, %+v, %+v: %+v", one.o, one.before, one.ran, d)
		}
	}
}

func TestPayloadsHaveTheNominalTime(t *testing.T) {
	zone := time.FixedZone("", 3600)
	if got := string(PayloadAt([]byte(`{"day":"{{nominal}}"}`), at(t, "01:00:00"), zone)); got != `{"day":"2026-03-01T02:00:00+01:00"}` {
		t.Error(got)
	}
}

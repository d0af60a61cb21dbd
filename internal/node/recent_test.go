package node

import (
	"math"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/overview"
	"github.com/kinesin-io/kinesin/task"
)

func TestRatesOfTheLastMinute(t *testing.T) {
	v := clock.NewVirtual(1_700_000_000_000_000, 1)
	r := newRecent(v.Process(0), func(uint32) bool { return true })
	for i := range 1000 {
		r.started(task.Partition{Lambda: 1}, time.Duration(i+1)*time.Millisecond)
		r.ended(1)
	}
	v.Advance(59 * time.Second)
	got := r.rates(1)
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 0.15*want {
			t.Errorf("%s: %v, want about %v", what, got, want)
		}
	}
	near("started", got.Started, 1000./60)
	near("ended", got.Ended, 1000./60)
	near("p50", got.Lateness50.Seconds(), 0.5)
	near("p99", got.Lateness99.Seconds(), 0.99)
	if none := r.rates(2); none.Started != 0 || none.Lateness99 != 0 {
		t.Error(none)
	}
	v.Advance(20 * time.Second)
	if over := r.rates(1); over.Started != 0 || over.Ended != 0 || over.Lateness50 != 0 {
		t.Errorf("after more than a minute: %+v", over)
	}
}

// The last hour of a lambda is told by the minute and its failures over a day, without what is older.
func TestMinutesOfALambda(t *testing.T) {
	v := clock.NewVirtual(1_700_000_000_000_000, 1)
	r := newRecent(v.Process(0), func(uint32) bool { return true })
	p := task.Partition{Lambda: 1}
	begun := v.Process(0).Now().Time()
	for i := range 600 { // one a second for ten minutes, the last ones later
		r.started(p, time.Duration(1+i/300)*100*time.Millisecond)
		r.ended(1)
		if i >= 540 {
			r.failed(1)
		}
		v.Advance(time.Second)
	}
	minutes := r.since(1, 60)
	if len(minutes) != 11 {
		t.Fatalf("%d minutes", len(minutes))
	}
	for i, m := range minutes {
		want := overview.Minute{At: begun.Add(time.Duration(i) * time.Minute), Started: 60, Ended: 60, Late50: lateOf(latenessStep(100 * time.Millisecond)), Late99: lateOf(latenessStep(100 * time.Millisecond))}
		switch {
		case i == 10:
			want = overview.Minute{At: want.At}
		case i >= 5:
			want.Late50 = lateOf(latenessStep(200 * time.Millisecond))
			want.Late99 = want.Late50
		}
		if i == 9 {
			want.Failed = 60
		}
		if m != want {
			t.Errorf("minute %d: %+v, want %+v", i, m, want)
		}
	}
	failed := func(when string, hour, day uint64) {
		t.Helper()
		if h, d := r.failedIn(1); h != hour || d != day {
			t.Errorf("%s: %d in the last hour, %d in the last day, want %d and %d", when, h, d, hour, day)
		}
	}
	failed("at once", 60, 60)
	v.Advance(58 * time.Minute)
	failed("nearly an hour later", 60, 60)
	r.failed(1)
	v.Advance(time.Minute)
	failed("an hour later", 1, 61)
	if minutes := r.since(1, 60); len(minutes) != 60 || minutes[0].Started != 0 || minutes[58].Failed != 1 || minutes[59].Failed != 0 {
		t.Errorf("an hour later: %+v", minutes)
	}
	v.Advance(22 * time.Hour)
	failed("a day later", 0, 61)
	v.Advance(3 * time.Hour)
	failed("more than a day later", 0, 0)
	if minutes := r.since(1, 60); len(minutes) != 60 || minutes[20] != (overview.Minute{At: minutes[20].At}) {
		t.Errorf("a day later: %+v", minutes)
	}
}

// A process that is young has seen less than a minute, and divides by what it has seen.
func TestRatesOfAYoungProcess(t *testing.T) {
	v := clock.NewVirtual(1_700_000_000_000_000, 1)
	r := newRecent(v.Process(0), func(uint32) bool { return true })
	p := task.Partition{Lambda: 1, Priority: 2}
	for range 100 {
		r.started(p, 0)
		r.failed(1)
		r.throttled(1)
	}
	r.spent(p, 150)
	r.spent(p, -50)
	v.Advance(5 * time.Second)
	got := r.rates(1)
	if got.Started != 20 || got.Failed != 20 || got.Throttled != 20 || got.Priorities[2].Started != 20 || got.Priorities[2].Spent != 20 || got.Priorities[0].Started != 0 {
		t.Errorf("after 5 s: %+v", got)
	}
	r.spent(p, -200)
	if got = r.rates(1); got.Priorities[2].Spent != 0 {
		t.Errorf("what is given back after its minute counts below 0: %+v", got.Priorities[2])
	}
}

func TestLatenessStepsAreFine(t *testing.T) {
	for late := time.Microsecond; late < 24*time.Hour; late += late/7 + 1 {
		if got := lateOf(latenessStep(late)); late > 8*time.Microsecond && (got < late*85/100 || got > late*115/100) {
			t.Fatalf("%v is told as %v", late, got)
		}
	}
}

package node

import (
	"math"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
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

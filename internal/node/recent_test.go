package node

import (
	"math"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

func TestRatesOfTheLastMinute(t *testing.T) {
	v := clock.NewVirtual(1_700_000_000_000_000, 1)
	r := newRecent(v.Process(0), func(uint32) bool { return true })
	for i := range 1000 {
		r.started(1, time.Duration(i+1)*time.Millisecond)
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

func TestLatenessStepsAreFine(t *testing.T) {
	for late := time.Microsecond; late < 24*time.Hour; late += late/7 + 1 {
		if got := lateOf(latenessStep(late)); late > 8*time.Microsecond && (got < late*85/100 || got > late*115/100) {
			t.Fatalf("%v is told as %v", late, got)
		}
	}
}

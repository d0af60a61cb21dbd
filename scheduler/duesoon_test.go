package scheduler

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// page is the wake-ups of a full page of rows, the nth due as late as says.
func page(late func(n int) time.Duration) []task.Instant {
	rows := make([]task.Instant, countRowsMax)
	for n := range rows {
		rows[n] = at.Add(late(n))
	}
	return rows
}

// Many rows that are due at one moment say nothing about the minutes after it.
func TestACrowdIsNotExtrapolated(t *testing.T) {
	for _, in := range []time.Duration{time.Microsecond, time.Millisecond, time.Second, crowdSpan, time.Minute, ForecastSpan} {
		rows := page(func(int) time.Duration { return in })
		most := countRowsMax * int(1+ForecastSpan/crowdSpan)
		if got := estimate(at, at.Add(ForecastSpan), rows, true); got < countRowsMax || got > most {
			t.Errorf("%d rows due in %v: %d due soon, want at most %d", countRowsMax, in, got, most)
		}
		if got := estimate(at, at.Add(ForecastSpan), rows, false); got != countRowsMax {
			t.Errorf("%d rows due in %v and none behind: %d due soon", countRowsMax, in, got)
		}
	}
	if got := estimate(at, at.Add(ForecastSpan), page(func(n int) time.Duration { return time.Duration(n/256) * time.Microsecond }), true); got > countRowsMax+256*int(ForecastSpan/crowdSpan) {
		t.Errorf("%d due soon of 256 that are overdue and as many that are due now", got)
	}
}

// A steady stream is extrapolated as it comes.
func TestASteadyLoadIsExtrapolated(t *testing.T) {
	for _, every := range []time.Duration{4 * time.Millisecond, 20 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond} {
		rows := page(func(n int) time.Duration { return time.Duration(n+1) * every })
		want := int(ForecastSpan / every)
		if got := estimate(at, at.Add(ForecastSpan), rows, true); got < want*9/10 || got > want*11/10 {
			t.Errorf("one every %v: %d due soon, want about %d", every, got, want)
		}
	}
}

func TestWhatIsOverdueCountsAsItIs(t *testing.T) {
	if got := estimate(at, at.Add(ForecastSpan), page(func(n int) time.Duration { return -time.Duration(n) * time.Second }), true); got != countRowsMax {
		t.Errorf("%d due soon, want %d", got, countRowsMax)
	}
}

func TestEachHorizonIsCounted(t *testing.T) {
	rows := page(func(n int) time.Duration { return time.Duration(n-10) * time.Second }) // to 501 s ahead
	if got := estimate(at, at.Add(time.Minute), rows, true); got != 71 {
		t.Errorf("%d due within a minute, want 71", got)
	}
	if got := estimate(at, at.Add(10*time.Minute), rows, false); got != countRowsMax {
		t.Errorf("%d due within ten minutes, want %d", got, countRowsMax)
	}
}

// Between two counts of a shared store, the read-aheads keep the nearest part true.
func TestAReadAheadRefreshesItsPartOfTheCount(t *testing.T) {
	d := dueSoonCount{known: []task.Instant{at.Add(time.Second), at.Add(20 * time.Second), at.Add(2 * time.Minute)}}
	if got := d.estimate(at); got != (DueCounts{2, 3}) {
		t.Errorf("counted %v, want 2 and 3", got)
	}
	now := at.Add(5 * time.Second) // the first has been fired, and two were stored
	d.refresh([]task.Instant{now.Add(time.Second), now.Add(10 * time.Second)}, now.Add(10*time.Second))
	if got := d.estimate(now); got != (DueCounts{3, 4}) {
		t.Errorf("counted %v, want 3 and 4", got)
	}
	now = at.Add(30 * time.Second)
	d.refresh(nil, now.Add(10*time.Second))
	if got := d.estimate(now); got != (DueCounts{0, 1}) {
		t.Errorf("counted %v, want 0 and 1", got)
	}
}

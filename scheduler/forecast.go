package scheduler

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// ForecastSpan is how far ahead it is counted what is due.
	ForecastSpan = 5 * time.Minute
	// forecastEvery is how often a partition is counted: with a scan that is made anyway, so that an idle one
	// costs nothing more.
	forecastEvery = time.Minute
	// forecastRowsMax bounds the rows that are read for it; beyond them it is extrapolated.
	forecastRowsMax = 512
	// crowdSpan is what rows that come closer together are taken to stretch over: many that are due at one
	// moment say nothing about the minutes after it. With forecastRowsMax it is the 250 tasks a second that
	// are meant for a partition.
	crowdSpan = 2 * time.Second
)

// forecast is how many tasks of a partition wait and are due within ForecastSpan. It belongs to the loop of
// the partition, but for the number.
type forecast struct {
	tasks atomic.Int64
	next  task.Instant
}

// span is how far a scan goes, and with what limit, that would go through an instant otherwise. counts says
// that so many rows are to be counted.
func (f *forecast) span(now, through task.Instant, limit int) (to task.Instant, rows int, counts bool) {
	if now < f.next && f.next <= now.Add(2*forecastEvery) { // the clock may be set back
		return through, limit, false
	}
	return max(through, now.Add(ForecastSpan)), min(limit, forecastRowsMax), true
}

// count takes in the first rows of a scan that span made longer; full says that there may be more.
func (f *forecast) count(c clock.Clock, now task.Instant, rows []task.Task, full bool) {
	spread, _ := bits.Mul64(c.Uint64(), uint64(forecastEvery/2))
	f.next = now.Add(forecastEvery - forecastEvery/4 + time.Duration(spread))
	f.tasks.Store(int64(estimate(now, rows, full)))
}

// estimate extrapolates from rows in order of their due times, if there may be more behind: as many a second
// as there are between the first and the last, though not all of them at one moment. What is overdue counts
// as it is.
func estimate(now task.Instant, rows []task.Task, full bool) int {
	ahead, first := 0, task.Instant(0)
	for i := range rows {
		if rows[i].WakeRow.At <= now {
			continue
		}
		if ahead == 0 {
			first = rows[i].WakeRow.At
		}
		ahead++
	}
	if !full || ahead == 0 {
		return len(rows)
	}
	last := rows[len(rows)-1].WakeRow.At
	over := max(last.Sub(first), last.Sub(now)/2, crowdSpan)
	rest := max(0, now.Add(ForecastSpan).Sub(last))
	return len(rows) + int(float64(ahead)*float64(rest)/float64(over))
}

// DueSoon is about how many tasks wait in the partitions that are fired here and are due within ForecastSpan,
// or overdue. Each partition is counted once a minute. Not counted is what is in flight.
func (s *Scheduler) DueSoon() (tasks int64) {
	for _, l := range *s.loops.Load() {
		tasks += l.forecast.tasks.Load()
	}
	return tasks
}

// Lag is how long ago the oldest task was due that waits here to be dispatched; 0 when none is late. Those
// that wait for room in their lambda's queue do not count: more schedulers would not help them.
func (s *Scheduler) Lag() (lag time.Duration) {
	now := s.Clock.Now()
	for p, due := range s.Overdue() {
		if l := s.loopOf(p); l == nil || !l.crowded.Load() {
			lag = max(lag, now.Sub(due))
		}
	}
	return lag
}

package scheduler

import (
	"math/bits"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// ForecastSpan is how far ahead DueSoon counts.
	ForecastSpan = 5 * time.Minute
	// countEvery is how often tasks due beyond the window are counted in a store that other processes share: by a
	// scan that happens anyway, so that an idle partition costs nothing more. Tasks due within the window, and all
	// tasks in a store of this process alone, are counted with each read-ahead.
	countEvery = time.Minute
	// countRowsMax bounds the rows that are read for a count; beyond them the count is extrapolated.
	countRowsMax = 512
	// crowdSpan is the shortest time over which rows are extrapolated: many that are due at one moment say
	// nothing about the minutes after it. With countRowsMax it is the 250 tasks a second that are meant for a
	// partition.
	crowdSpan = 2 * time.Second
)

// DueHorizons are the times ahead up to which due tasks are counted, in rising order up to ForecastSpan.
var DueHorizons = [...]time.Duration{time.Minute, ForecastSpan}

// DueCounts are the tasks that are overdue or due within each of DueHorizons.
type DueCounts [len(DueHorizons)]int64

// dueSoonCount plans the counting of one partition's tasks that are due soon.
type dueSoonCount struct {
	next  tick
	every time.Duration  // 0: with each scan
	known []task.Instant // wake-ups of the rows that were counted last, in order
	more  bool           // there may be more rows behind them
}

// span returns through which instant a scan is to read, and with which limit: those given, or further if it is time to
// count; counts says that its rows are to be counted.
func (d *dueSoonCount) span(c clock.Clock, now, through task.Instant, limit int) (to task.Instant, rows int, counts bool) {
	if tickOf(c) < d.next {
		return through, limit, false
	}
	return max(through, now.Add(ForecastSpan+d.every*5/4)), min(limit, countRowsMax), true // until the next count
}

// counted records the rows of a scan that span made longer; more says that there may be more rows.
func (d *dueSoonCount) counted(c clock.Clock, rows []task.Instant, more bool) {
	if d.every > 0 {
		spread, _ := bits.Mul64(c.Uint64(), uint64(d.every/2))
		d.next = tickOf(c).Add(d.every - d.every/4 + time.Duration(spread))
	}
	d.known, d.more = rows, more
}

// refresh replaces what is known through an instant by the rows that a read-ahead has found there.
func (d *dueSoonCount) refresh(rows []task.Instant, through task.Instant) {
	later, _ := slices.BinarySearch(d.known, through+1)
	d.known = append(rows, d.known[later:]...)
}

// estimate counts the rows that are known.
func (d *dueSoonCount) estimate(now task.Instant) (due DueCounts) {
	for i, horizon := range DueHorizons {
		due[i] = int64(estimate(now, now.Add(horizon), d.known, d.more))
	}
	return due
}

// estimate counts the rows, in order of their due times, that are due through an instant. If there may be
// more it extrapolates: at the rate between the first and the last of those ahead. Overdue rows count as they
// are.
func estimate(now, through task.Instant, rows []task.Instant, full bool) int {
	ahead, within, first := 0, 0, task.Instant(0)
	for _, at := range rows {
		if at <= through {
			within++
		}
		if at <= now {
			continue
		}
		if ahead == 0 {
			first = at
		}
		ahead++
	}
	if !full || ahead == 0 || within < len(rows) {
		return within
	}
	last := rows[len(rows)-1]
	over := max(last.Sub(first), last.Sub(now)/2, crowdSpan)
	rest := max(0, through.Sub(last))
	return len(rows) + int(float64(ahead)*float64(rest)/float64(over))
}

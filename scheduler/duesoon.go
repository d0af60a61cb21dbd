package scheduler

import (
	"math/bits"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// ForecastSpan is how far ahead DueSoon counts.
	ForecastSpan = 5 * time.Minute
	// countEvery is how often a partition is counted: by a scan that is made anyway, so that an idle
	// partition costs nothing more.
	countEvery = time.Minute
	// countRowsMax bounds the rows that are read for it; beyond them it is extrapolated.
	countRowsMax = 512
	// crowdSpan is the shortest time over which rows are extrapolated: many that are due at one moment say
	// nothing about the minutes after it. With countRowsMax it is the 250 tasks a second that are meant for a
	// partition.
	crowdSpan = 2 * time.Second
)

// dueSoonCount plans the counting of one partition's tasks that are due soon.
type dueSoonCount struct{ next task.Instant }

// span returns how far a scan goes, and with what limit, that otherwise goes through an instant; counts says
// that its rows are to be counted.
func (d *dueSoonCount) span(now, through task.Instant, limit int) (to task.Instant, rows int, counts bool) {
	if now < d.next && d.next <= now.Add(2*countEvery) { // the clock may be set back
		return through, limit, false
	}
	return max(through, now.Add(ForecastSpan)), min(limit, countRowsMax), true
}

// count estimates from the first rows of a scan that span made longer; full says that there may be more rows.
func (d *dueSoonCount) count(c clock.Clock, now task.Instant, rows []task.Task, full bool) int64 {
	spread, _ := bits.Mul64(c.Uint64(), uint64(countEvery/2))
	d.next = now.Add(countEvery - countEvery/4 + time.Duration(spread))
	return int64(estimate(now, rows, full))
}

// estimate extrapolates from rows in order of their due times, if there may be more: at the rate between the
// first and the last of them. Overdue rows count as they are.
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

package scheduler

import (
	"math/bits"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// readMargin is how long before now a read-ahead begins. A row that is stored later than that after its
	// wake-up comes to the owner as a hint, or waits for the next full scan.
	readMargin = time.Minute
	// scanEvery is how often a partition is read from its head.
	scanEvery = 5 * time.Minute
	// scansApart is how far apart two full scans of a partition are at most.
	scansApart = scanEvery + scanEvery/4
)

// scheduleReader is the state of one partition's reads.
type scheduleReader struct {
	ahead   readAhead
	full    fullScan
	limited limitedRead
	request readRequest
	dueSoon dueSoonCount

	unexplained unexplainedLook
}

// readAhead is the state of one partition's read-aheads.
type readAhead struct {
	missed   task.Instant // a row at or behind it may be unknown though the high-water mark covers it; zero: none
	through  task.Instant // where the last one ended; zero: there was none
	next     tick
	partial  bool            // the last one did not come to its end, though there is room
	repeated bool            // there was a first one, so that the second one is planned
	breaker  backoff.Breaker // for all reads of the schedule
}

// restartAt has a read-ahead begin at once, and no later in the schedule than at an instant.
func (r *readAhead) restartAt(at task.Instant) {
	if r.missed.IsZero() || at < r.missed {
		r.missed = at
	}
	r.next = 0
}

// fullScan is the state of one partition's scan from its head.
type fullScan struct {
	cursor

	begins tick // when the next one begins
	every  time.Duration
	since  task.Instant // when the partition came here: the task of an older row may be in flight
	rescan cursor       // goes over what a scan that waits for room has read
}

// newFullScan spreads the scans of partitions over time.
func newFullScan(random uint64) fullScan {
	spread, _ := bits.Mul64(random, uint64(scanEvery/2))
	return fullScan{every: scanEvery - scanEvery/4 + time.Duration(spread)}
}

// limitedRead is the state of the reads that an owner makes in between while limits bound what runs.
type limitedRead struct {
	next    tick
	around  tick   // when it reads about now next
	holders cursor // of what holds slots

	late      cursor
	lateNext  tick // when the next one begins
	lateScans uint // that have begun
	lateRows  int  // of that under way, at most
}

// slotCount is the state of one partition's count of slots.
type slotCount struct {
	cursor

	number uint64 // of the one that was made last, or is under way
}

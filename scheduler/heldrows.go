package scheduler

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// heldPassMax is for how long a full scan at most begins behind the rows that gates hold. Rows behind its
	// begin that are not known here are found after that.
	heldPassMax = time.Hour
	// heldPassShare is how often in the retention of a lambda's ended rows a full scan begins at the head at
	// least, so that a leftover row is met while the ended row is there to tell.
	heldPassShare = 16
	// heldPagesMax bounds the pages that one read-ahead reads at once where gates hold rows: due tasks have
	// their turn in between.
	heldPagesMax = 8
	// marginEvery is how often a read-ahead begins at its margin where gates hold rows.
	marginEvery = time.Minute
	// pacedRowsMin is the smallest page of a full scan while a gate resumes at a pace.
	pacedRowsMin = 16
	// paceWaitMax bounds the time until a gate that resumes is asked again.
	paceWaitMax = time.Second
	// gateKnownMax is how long after it was made a gate is known everywhere, by all clocks.
	gateKnownMax = time.Minute
)

// heldPassEvery returns for how long a full scan may begin behind the rows that gates hold.
func heldPassEvery(kept time.Duration) time.Duration {
	return min((max(kept, task.EndedMin)-store.CallMax)/heldPassShare, heldPassMax)
}

// passesApart returns how far apart two full scans from the head of a partition are at most, whose lambda
// keeps ended rows for so long.
func passesApart(kept time.Duration) time.Duration {
	if every := heldPassEvery(kept); every > scanEvery {
		return every + scansApart
	}
	return scansApart
}

// heldRows is what a loop knows of the rows that gates hold.
type heldRows struct {
	number  uint64     // of the gates, when they were looked at last
	gates   hold.Gates // of the loop's lambda; none: nothing is held
	ends    task.Instant
	isPaced bool // one of them resumes at a pace
	probes  bool // one of them holds back also what comes due meanwhile, and lets probes through
	some    bool // a row was passed over since these are the gates

	every    time.Duration // between two passes from the head
	pass     tick          // when the last one began; zero: it is to begin
	through  task.Instant  // behind which the next full scan begins
	count    int           // rows that full scans have passed over since then
	scanning int           // by the one that goes on
	unsure   bool          // a row behind through may be neither held nor known

	ahead   rowKey // behind which the next read-ahead begins, at the earliest
	margin  tick   // when a read-ahead begins at its margin again
	counted rowKey // up to which read-aheads have counted what they pass over
	further int    // rows that they have counted, and no full scan
	before  int    // as many of these there were when the full scan began

	expiring *buffer              // rows that expire while they are held
	mayGo    map[task.ID]struct{} // rows that go although a gate that resumes at a pace holds them
	paceRows int                  // as many rows the last page of the full scan came to before it had to wait
	paceNext task.Instant         // when the latest of the tasks with task rows that wait for their pace asks again
}

// forget forgets which rows were passed over, so that scans begin before them.
func (h *heldRows) forget() {
	h.some, h.pass, h.count, h.scanning, h.further, h.before = false, 0, 0, 0, 0, 0
	h.ahead, h.counted, h.margin = rowKey{}, rowKey{}, 0
}

// pacedRows returns how many rows the next page of a full scan has, limit at most, while a gate resumes at a
// pace: not many more than may go, since it has to read the others again.
func (h *heldRows) pacedRows(limit int) int { return min(2*h.paceRows+pacedRowsMin, limit) }

// scanAfter returns the key behind which a full scan begins that begins now.
func (h *heldRows) scanAfter(now tick, s *inFlightSet) (after rowKey) {
	h.scanning, h.before = 0, h.further
	clear(h.mayGo)
	fresh := h.pass != 0 && now < h.pass.Add(h.every)
	if fresh && h.count > 0 && !h.isPaced && !h.unsure && !s.overflowed {
		return endOf(h.through)
	}
	h.pass, h.count, h.unsure, s.overflowed = now, 0, false, false
	return after
}

// scanned notes that a full scan has come to its end.
func (h *heldRows) scanned(through task.Instant) {
	h.count += h.scanning
	h.further -= h.before
	h.scanning, h.before, h.through = 0, 0, through
}

// readFrom returns where a read-ahead begins that would begin at a key: behind what it has passed over. Once
// in a while it begins at the key all the same, since another process may have stored rows there.
func (h *heldRows) readFrom(key rowKey, now tick) rowKey {
	if !h.some || now >= h.margin {
		h.margin = now.Add(marginEvery)
		return key
	}
	if key.less(h.ahead) {
		return h.ahead
	}
	return key
}

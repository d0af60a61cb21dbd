package scheduler

import (
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

const (
	// hintsMax bounds the hints that wait for a loop; rows beyond it are found by a scan.
	hintsMax = 4096
	// doneMax bounds the finished tasks that a loop is told of at once; the rest is found out in time.
	doneMax = 1 << 16
)

// hint tells a loop of a row that was stored a moment ago.
type hint struct {
	task *task.Task // the loop's own copy
	kind hintKind
}

func newHint(t *task.Task, kind hintKind) hint {
	own := *t
	return hint{&own, kind}
}

type hintKind uint8

const (
	hintAdded   hintKind = iota // a wake-up row
	hintAwake                   // a task row that waits in memory for its wake-up
	hintSent                    // a task row whose message is on its way
	hintPutBack                 // a task row that waits again, because a gate holds the task
	hintUnsent                  // the same for a task without a task row, whose message is gone
)

// inbox holds what other goroutines tell a loop.
type inbox struct {
	mu sync.Mutex // guards what follows
	news
	closed bool // the loop has ended, because its partition is idle
}

// close takes no more news; false if there is some.
func (in *inbox) close() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = len(in.done) == 0 && !in.news.isUrgent()
	return in.closed
}

// news is what a loop was told since the last round.
type news struct {
	hints       []hint
	done        []doneRow     // wake-up rows that no task needs any more
	missed      task.Instant  // the wake-up of the earliest hint for which there was no room; zero: none
	look        uint64        // the number of looks that were asked for
	checkAll    bool          // all tasks in flight are to be read
	makeForeign bool          // another process has taken the partition over
	lingers     time.Duration // with makeForeign: what is due within it is still fired here
}

// isUrgent reports whether there is something of which the loop is told at once.
func (n *news) isUrgent() bool {
	return len(n.hints) > 0 || !n.missed.IsZero() || n.checkAll || n.makeForeign
}

// take empties the inbox.
func (in *inbox) take() news {
	in.mu.Lock()
	defer in.mu.Unlock()
	all := in.news
	in.news = news{look: all.look}
	return all
}

// add adds a hint; false if the inbox is closed. The next read-ahead, which begins no later than there, finds
// whatever does not fit.
func (in *inbox) add(t *task.Task, kind hintKind) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.closed {
		return false
	}
	if len(in.hints) < hintsMax {
		in.hints = append(in.hints, newHint(t, kind))
		return true
	}
	if in.missed.IsZero() || t.WakeRow.At < in.missed {
		in.missed = t.WakeRow.At
	}
	in.checkAll = in.checkAll || kind == hintAwake // what is known of it may be older
	return true
}

// doneRow is a wake-up row that no task needs any more. One with a higher seq in its place belongs to the
// task as it was redriven, or scheduled anew with its key.
type doneRow struct {
	rowKey

	seq      uint64
	limitKey string
}

// addDone adds a wake-up row that no task needs any more.
func (in *inbox) addDone(k doneRow) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.done) < doneMax {
		in.done = append(in.done, k)
	}
}

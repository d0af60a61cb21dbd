package inbound

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// backlogAge is how old what comes from the buffer may be where nothing waits in it.
	backlogAge = 30 * time.Second
	// backlogFor is how long after something older it is believed that more may follow: what the store did
	// not take comes again after retryAfterMax at the latest.
	backlogFor = retryAfterMax + time.Minute
	// backlogUnknownAfter is how long ago a receive may be for that to be known at all. One that brings
	// nothing takes 20 s.
	backlogUnknownAfter = time.Minute
	// backlogQuiet is for how many seconds nothing older than a moment must have come for the buffer to be
	// past that moment, since it keeps no order, and backlogIdle how long a receive must have waited in vain
	// for the buffer to be empty.
	backlogQuiet = 3
	backlogIdle  = time.Second
)

var errBacklog = errors.New("the inbound buffer may still have tasks of it")

// backlog is what this process has seen of the buffer's: a buffer does not say how much it holds.
type backlog struct {
	mu       sync.Mutex // guards all below
	received time.Duration
	late     time.Duration
	began    time.Duration
	// Whether these have been at all, in monotonic time.
	isReceived, isLate, hasBegun bool

	newest  task.Instant                 // when the oldest was accepted of what the last receive brought; 0: it brought nothing
	seconds [backlogQuiet + 1]secondSeen // the last ones, by their number
	waits   map[*time.Duration]struct{}  // receives under way, by when they began
	hidden  time.Duration                // until when what was left for later may be out of sight
}

// secondSeen is when the oldest was accepted of what came in a second of monotonic time.
type secondSeen struct {
	second int64
	oldest task.Instant
}

// begins notes that somebody receives from now on, and waiting that a receive is under way, until its end is
// called.
func (b *backlog) begins(k clock.Clock) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.hasBegun {
		b.began, b.hasBegun = clock.Mono(k), true
	}
}

func (b *backlog) waiting(k clock.Clock) (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.waits == nil {
		b.waits = map[*time.Duration]struct{}{}
	}
	since := new(time.Duration)
	*since = clock.Mono(k)
	b.waits[since] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.waits, since)
	}
}

// saw notes a receive, and when the oldest of what it brought was accepted; 0 when it brought nothing.
func (b *backlog) saw(k clock.Clock, oldest task.Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.received, b.isReceived = clock.Mono(k), true
	b.newest = oldest
	if oldest == 0 {
		return
	}
	if k.Now().Sub(oldest) > backlogAge {
		b.late, b.isLate = b.received, true
	}
	second := int64(b.received / time.Second)
	s := &b.seconds[second%int64(len(b.seconds))]
	if s.second != second || s.oldest == 0 || oldest < s.oldest {
		*s = secondSeen{second, oldest}
	}
}

// left notes that a message is left in the buffer, out of sight for a while.
func (b *backlog) left(k clock.Clock, hidden time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hidden = max(b.hidden, clock.Mono(k)+hidden)
}

// isUnknown reports whether nothing was received for so long that nothing is known.
func (b *backlog) isUnknown(now time.Duration) bool {
	hasJustBegun := b.hasBegun && now-b.began <= backlogUnknownAfter
	return !hasJustBegun && (!b.isReceived || now-b.received > backlogUnknownAfter)
}

var errBacklogUnknown = fmt.Errorf("%w: nothing could be received from it for %v", errBacklog, backlogUnknownAfter)

// doubt fails with errBacklog while tasks that were acknowledged a while ago may be in the buffer: what comes
// from it was, or, which is errBacklogUnknown, nobody can tell.
func (b *backlog) doubt(k clock.Clock) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := clock.Mono(k)
	switch {
	case b.isLate && now-b.late < backlogFor:
		return fmt.Errorf("%w: what came from it in the last %v was accepted more than %v before", errBacklog, backlogFor, backlogAge)
	case b.isUnknown(now):
		return errBacklogUnknown
	}
	return nil
}

// passed reports whether what was accepted until a moment has come out of the buffer, as far as can be seen
// here: since then a receive brought only what is newer, or nothing, and for a while none brought anything
// older.
func (b *backlog) passed(k clock.Clock, until task.Instant) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := clock.Mono(k)
	since := k.Now().Sub(until)
	if b.isUnknown(now) || since < 0 || now < b.hidden {
		return false
	}
	for _, s := range b.seconds {
		if s.oldest != 0 && s.oldest <= until && s.second+backlogQuiet >= int64(now/time.Second) {
			return false
		}
	}
	for began := range b.waits {
		if now-*began >= backlogIdle {
			return true // there is nothing, or it would have it
		}
	}
	return b.isReceived && now-b.received < since && (b.newest == 0 || b.newest > until)
}

// Settled returns a channel that is closed when all calls that have begun, and may have seen lambdas as they
// were, are over.
func (in *Inbound) Settled() <-chan struct{} { return in.intakes.turn() }

// BufferLife is how long a task may be in the inbound buffer; 0 where there is none.
func (in *Inbound) BufferLife() time.Duration {
	if in.Buffering.Buffer == nil {
		return 0
	}
	return bufferLife
}

// BufferDoubt says why tasks that were acknowledged a while ago may be in the inbound buffer; unknown: since
// nobody can tell.
func (in *Inbound) BufferDoubt() (unknown bool, err error) {
	if in.Buffering.Buffer == nil {
		return false, nil
	}
	err = in.backlog.doubt(in.Clock)
	return errors.Is(err, errBacklogUnknown), err
}

// BufferPassed reports whether what was accepted until a moment has come out of the inbound buffer, as far as
// can be seen here.
func (in *Inbound) BufferPassed(until task.Instant) bool {
	return in.Buffering.Buffer == nil || in.backlog.passed(in.Clock, until)
}

// oldest is when the oldest of arrivals was accepted; 0 when there are none.
func oldest(arrivals []arrival) (at task.Instant) {
	for i := range arrivals {
		if accepted := task.Instant(arrivals[i].AcceptedMicros); at == 0 || accepted < at {
			at = accepted
		}
	}
	return at
}

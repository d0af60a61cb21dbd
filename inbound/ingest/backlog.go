package ingest

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// retryAfterMax is after how long a task that the store did not take comes again at the latest.
	retryAfterMax = 2 * time.Minute
	// backlogAge is how old tasks may be that come from a buffer without a backlog.
	backlogAge = 30 * time.Second
	// backlogFor is for how long after an older task more are expected: a task that the store did not take
	// comes again after retryAfterMax at the latest.
	backlogFor = retryAfterMax + time.Minute
	// backlogUnknownAfter is how long after a receive the backlog is unknown. A receive that brings nothing
	// takes 20 s.
	backlogUnknownAfter = time.Minute
	// The buffer keeps no order. It has passed a moment when for backlogQuiet seconds nothing older came from
	// it, and it is empty when a receive has waited in vain for backlogIdle.
	backlogQuiet = 3
	backlogIdle  = time.Second

	never = time.Duration(math.MinInt64 / 2) // before all monotonic times
)

var (
	errBacklog        = errors.New("the inbound buffer may still have tasks of it")
	errBacklogUnknown = fmt.Errorf("%w: nothing could be received from it for %v", errBacklog, backlogUnknownAfter)
)

// Backlog estimates what is in the buffer by what this process received, since a buffer does not say how much
// it holds. It is safe for concurrent use.
type Backlog struct {
	clock    clock.Clock
	buffered bool // there is a buffer

	mu sync.Mutex // guards the rest
	// In monotonic time, or never:
	began        time.Duration // the first Run
	lastReceived time.Duration // end of the last receive
	lastOld      time.Duration // when a task older than backlogAge came
	hiddenUntil  time.Duration // until then messages that were left for later may be out of sight

	lastOldest task.Instant                    // when the oldest task of the last receive was accepted; 0: it brought nothing
	seconds    [backlogQuiet + 1]secondReceipt // the last ones, by their number
	receives   map[*time.Duration]struct{}     // receives in flight, by when they began
}

// secondReceipt is when the oldest task was accepted of those that came in a second of monotonic time.
type secondReceipt struct {
	second int64
	oldest task.Instant
}

// NewBacklog returns the Backlog of a buffer, or, not buffered, that of a server without one.
func NewBacklog(c clock.Clock, buffered bool) *Backlog {
	return &Backlog{
		clock: c, buffered: buffered, began: never, lastReceived: never, lastOld: never, hiddenUntil: never,
		receives: map[*time.Duration]struct{}{},
	}
}

// begin notes that this process receives from now on.
func (b *Backlog) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.began == never {
		b.began = clock.Mono(b.clock)
	}
}

// receiving notes that a receive is in flight, until end is called.
func (b *Backlog) receiving() (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	since := new(time.Duration)
	*since = clock.Mono(b.clock)
	b.receives[since] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.receives, since)
	}
}

// received notes a receive, and when the oldest task that it brought was accepted; 0 when it brought none.
func (b *Backlog) received(oldest task.Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastReceived, b.lastOldest = clock.Mono(b.clock), oldest
	if oldest == 0 {
		return
	}
	if b.clock.Now().Sub(oldest) > backlogAge {
		b.lastOld = b.lastReceived
	}
	second := int64(b.lastReceived / time.Second)
	s := &b.seconds[second%int64(len(b.seconds))]
	if s.second != second || s.oldest == 0 || oldest < s.oldest {
		*s = secondReceipt{second, oldest}
	}
}

// left notes that a message is left in the buffer, out of sight for a while.
func (b *Backlog) left(hidden time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hiddenUntil = max(b.hiddenUntil, clock.Mono(b.clock)+hidden)
}

// isUnknown reports whether nothing was received for so long that nothing is known.
func (b *Backlog) isUnknown(now time.Duration) bool {
	return now-max(b.began, b.lastReceived) > backlogUnknownAfter
}

// Life returns how long a task may be in the buffer; 0 where there is none.
func (b *Backlog) Life() time.Duration {
	if !b.buffered {
		return 0
	}
	return intake.BufferLifeMax
}

// Doubt returns why tasks that were acknowledged a while ago may be in the buffer; unknown says that nothing
// is known.
func (b *Backlog) Doubt() (unknown bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := clock.Mono(b.clock)
	switch {
	case !b.buffered:
		return false, nil
	case now-b.lastOld < backlogFor:
		return false, fmt.Errorf("%w: tasks that came from it in the last %v were accepted more than %v before", errBacklog, backlogFor, backlogAge)
	case b.isUnknown(now):
		return true, errBacklogUnknown
	}
	return false, nil
}

// Passed reports whether what was accepted until a moment has come out of the buffer, as far as can be seen
// here: a later receive brought only newer tasks, or none, and for a while none brought older ones.
func (b *Backlog) Passed(until task.Instant) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.buffered {
		return true
	}
	now := clock.Mono(b.clock)
	since := b.clock.Now().Sub(until)
	if b.isUnknown(now) || since < 0 || now < b.hiddenUntil {
		return false
	}
	for _, s := range b.seconds {
		if s.oldest != 0 && s.oldest <= until && s.second+backlogQuiet >= int64(now/time.Second) {
			return false
		}
	}
	for began := range b.receives {
		if now-*began >= backlogIdle {
			return true // it would have brought what there is
		}
	}
	return now-b.lastReceived < since && (b.lastOldest == 0 || b.lastOldest > until)
}

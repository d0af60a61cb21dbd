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
	// backlogFor is how long after something older it is believed that more may follow: what the store did not take comes again
	// after retryAfterMax at the latest.
	backlogFor = retryAfterMax + time.Minute
	// backlogUnknownAfter is how long ago a receive may be for that to be known at all. One that brings nothing takes 20 s.
	backlogUnknownAfter = time.Minute
)

var errBacklog = errors.New("the inbound buffer may still have tasks of it")

// backlog is what this process has seen of the buffer's: a buffer does not say how much it holds.
type backlog struct {
	mu       sync.Mutex // guards all below
	received time.Duration
	late     time.Duration
	// Whether these have been at all, in monotonic time.
	isReceived, isLate bool
}

// saw notes a receive, and when the oldest of what it brought was accepted; 0 when it brought nothing.
func (b *backlog) saw(k clock.Clock, oldest task.Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.received, b.isReceived = clock.Mono(k), true
	if oldest > 0 && k.Now().Sub(oldest) > backlogAge {
		b.late, b.isLate = b.received, true
	}
}

// mustHaveNoBacklog fails with errBacklog while tasks that were acknowledged a while ago may be in the buffer. Without their lambda
// they would be set aside.
func (in *Inbound) mustHaveNoBacklog() error {
	if in.Buffering.Buffer == nil {
		return nil
	}
	b, now := &in.backlog, clock.Mono(in.Clock)
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case !b.isReceived || now-b.received > backlogUnknownAfter:
		return fmt.Errorf("%w: nothing could be received from it for %v", errBacklog, backlogUnknownAfter)
	case b.isLate && now-b.late < backlogFor:
		return fmt.Errorf("%w: what came from it in the last %v was accepted more than %v before", errBacklog, backlogFor, backlogAge)
	}
	return nil
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

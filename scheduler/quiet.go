package scheduler

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
)

const (
	// missingEvery is how often a missing queue is logged: it stays so until somebody makes it, and all partitions of its
	// lambda meet it every few seconds.
	missingEvery = 5 * time.Minute
	// missingMax bounds how many missing queues are told apart; those beyond are not logged until the others are old.
	missingMax = 1024
)

// quiet remembers which errors were logged lately.
type quiet struct {
	mu   sync.Mutex
	last map[string]time.Duration // by text, in monotonic time; guarded by mu
}

// isNews reports whether an error is to be logged: every one but that of a missing queue that was logged less than
// missingEvery ago, of whichever partition.
func (q *quiet) isNews(c clock.Clock, err error) bool {
	if !errors.Is(err, queue.ErrMissing) {
		return true
	}
	now, text := clock.Mono(c), err.Error()
	q.mu.Lock()
	defer q.mu.Unlock()
	if last, known := q.last[text]; known && now-last < missingEvery {
		return false
	}
	if len(q.last) >= missingMax {
		maps.DeleteFunc(q.last, func(_ string, last time.Duration) bool { return now-last >= missingEvery })
	}
	if len(q.last) >= missingMax {
		return false
	}
	if q.last == nil {
		q.last = map[string]time.Duration{}
	}
	q.last[text] = now
	return true
}

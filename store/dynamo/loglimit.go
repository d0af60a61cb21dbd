package dynamo

import (
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// logLimit counts events that may be frequent and says when to log them.
type logLimit struct {
	mu     sync.Mutex // guards all
	logged bool
	last   time.Duration // monotonic time of the last log line
	count  int           // events since then
}

// add counts one event. It returns how many there were since the last log line when another line is due, and
// else 0.
func (l *logLimit) add(c clock.Clock, every time.Duration) (n int) {
	now := clock.Mono(c)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if l.logged && now-l.last < every {
		return 0
	}
	n = l.count
	l.logged, l.last, l.count = true, now, 0
	return n
}

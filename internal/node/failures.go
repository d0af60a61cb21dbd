package node

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// failureEvery is how often a failure of the HSC is logged for each thing that was attempted. While the store
// is away every worker meets it several times a second.
const failureEvery = 10 * time.Second

// failureLog remembers which failures were logged lately.
type failureLog struct {
	mu   sync.Mutex
	last map[string]*failureLogged // by what was attempted, which is one of a few texts; guarded by mu
}

// failureLogged is when a failure was logged last, in monotonic time, and how often it was not since.
type failureLogged struct {
	at   time.Duration
	more int
}

// isNews reports whether a failure is to be logged, and how many like it were not since the last that was.
func (f *failureLog) isNews(c clock.Clock, what string) (news bool, more int) {
	now := clock.Mono(c)
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.last[what]
	if last != nil && now-last.at < failureEvery {
		last.more++
		return false, 0
	}
	if last != nil {
		more = last.more
	}
	if f.last == nil {
		f.last = map[string]*failureLogged{}
	}
	f.last[what] = &failureLogged{at: now}
	return true, more
}

// hscFailed returns the hook that counts and logs the failures of the HSC. It leaves out calls that were
// cancelled.
func (n *Node) hscFailed() func(what string, err error) {
	logged := &failureLog{}
	return func(what string, err error) {
		if errors.Is(err, context.Canceled) {
			return
		}
		n.metrics.hscFailures.WithLabelValues(strings.ReplaceAll(what, " ", "_")).Inc()
		if news, more := logged.isNews(n.clock, what); news {
			n.log.Warn("hsc failed", slog.String("what", what), slog.Any("error", err), slog.Int("more", more))
		}
	}
}

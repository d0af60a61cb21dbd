package scheduler

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
)

const (
	// missingQueueLogEvery is how often a missing queue is logged: it stays missing until somebody makes it,
	// and all partitions of its lambda meet it every few seconds.
	missingQueueLogEvery = 5 * time.Minute
	// failureLogEvery is how often every other kind of failure is logged: what one partition meets, all meet.
	failureLogEvery = 10 * time.Second
	// failureKindsMax bounds how many kinds of failures are told apart; further kinds are not logged.
	failureKindsMax = 1024
	// failureKindBytesMax bounds the text by which kinds are told apart.
	failureKindBytesMax = 512
)

// logLimiter limits how often a kind of failure is logged, over all partitions.
type logLimiter struct {
	mu   sync.Mutex
	last map[string]*loggedFailure // by kind; guarded by mu
}

func newLogLimiter() *logLimiter { return &logLimiter{last: map[string]*loggedFailure{}} }

// loggedFailure says when a kind of failure was logged last, in monotonic time, and how often it was suppressed since.
type loggedFailure struct {
	at         time.Duration
	every      time.Duration
	suppressed int
}

// allow reports whether a failure is to be logged, and how many of its kind were suppressed since the last one that was.
func (l *logLimiter) allow(c clock.Clock, source string, err error) (ok bool, suppressed int) {
	now, kind, every := clock.Mono(c), failureKind(err), failureLogEvery
	if errors.Is(err, queue.ErrMissing) {
		kind, every = err.Error(), missingQueueLogEvery
	}
	kind = source + " " + kind
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, known := l.last[kind]; known {
		if now-last.at < every {
			last.suppressed++
			return false, 0
		}
		suppressed = last.suppressed
		*last = loggedFailure{at: now, every: every}
		return true, suppressed
	}
	if len(l.last) >= failureKindsMax {
		maps.DeleteFunc(l.last, func(_ string, last *loggedFailure) bool { return now-last.at >= last.every })
		if len(l.last) >= failureKindsMax {
			return false, 0
		}
	}
	l.last[kind] = &loggedFailure{at: now, every: every}
	return true, 0
}

// failureKind returns the text of an error without the words that have digits: those name one request, one
// connection or one row.
func failureKind(err error) string {
	text := err.Error()
	words := strings.Fields(text[:min(len(text), failureKindBytesMax)])
	hasDigit := func(word string) bool { return strings.ContainsFunc(word, unicode.IsDigit) }
	return strings.Join(slices.DeleteFunc(words, hasDigit), " ")
}

package scheduler

import (
	"errors"
	"maps"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
)

const (
	// missingEvery is how often a missing queue is logged: it stays so until somebody makes it, and all
	// partitions of its lambda meet it every few seconds.
	missingEvery = 5 * time.Minute
	// complaintEvery is how often every other kind of failure is logged: what one partition meets, all meet.
	complaintEvery = 10 * time.Second
	// quietMax bounds how many failures are told apart; those beyond are not logged until the others are old.
	quietMax = 1024
	// kindBytesMax bounds what one is told by.
	kindBytesMax = 512
)

// quiet remembers which errors were logged lately.
type quiet struct {
	mu   sync.Mutex
	last map[string]*complaint // by kind; guarded by mu
}

// complaint is when an error was logged last, in monotonic time, and how often it was not since.
type complaint struct {
	at    time.Duration
	every time.Duration
	more  int
}

// isNews reports whether an error is to be logged: one whose kind was not logged lately, of whichever
// partition, and how many there were since it was. What tells where they come from.
func (q *quiet) isNews(c clock.Clock, what string, err error) (news bool, more int) {
	now, kind, every := clock.Mono(c), kindOf(err), complaintEvery
	if errors.Is(err, queue.ErrMissing) {
		kind, every = err.Error(), missingEvery
	}
	kind = what + " " + kind
	q.mu.Lock()
	defer q.mu.Unlock()
	if last, known := q.last[kind]; known {
		if now-last.at < every {
			last.more++
			return false, 0
		}
		more = last.more
		*last = complaint{at: now, every: every}
		return true, more
	}
	if len(q.last) >= quietMax {
		maps.DeleteFunc(q.last, func(_ string, last *complaint) bool { return now-last.at >= last.every })
	}
	if len(q.last) >= quietMax {
		return false, 0
	}
	if q.last == nil {
		q.last = map[string]*complaint{}
	}
	q.last[kind] = &complaint{at: now, every: every}
	return true, 0
}

// kindOf is the text of an error without the words that have digits: those are of one request, one
// connection, one row.
func kindOf(err error) string {
	text := err.Error()
	text = text[:min(len(text), kindBytesMax)]
	words := strings.FieldsFunc(text, func(r rune) bool { return r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	var kind strings.Builder
	for _, word := range words {
		if !strings.ContainsFunc(word, unicode.IsDigit) {
			kind.WriteString(word)
			kind.WriteByte(' ')
		}
	}
	return kind.String()
}

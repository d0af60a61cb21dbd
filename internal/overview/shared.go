package overview

import (
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// Shared is a figure that all callers share. It is read at most once in a while, by the caller that finds it
// old: a thousand callers cost the reads of one.
type Shared[T any] struct {
	mu      sync.Mutex
	value   T
	again   time.Duration // monotonic time from which it is read again
	known   bool
	reading bool // a caller reads it again
}

// Get returns the value, and reads it if it is old. Callers that ask meanwhile get the old value, or wait for
// the first. The function read returns the value and for how long it lasts. Reading takes at most 1/share of
// the time.
func (s *Shared[T]) Get(c clock.Clock, share int, read func() (T, time.Duration)) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := clock.Mono(c)
	if s.known && (began < s.again || s.reading) {
		return s.value
	}
	if s.known {
		read = s.unlocked(read)
	}
	value, every := read()
	now := clock.Mono(c)
	s.value, s.known, s.again = value, true, now+max(every, time.Duration(share)*(now-began))
	return s.value
}

// unlocked returns a read without the lock, which is held before and after, even if the read panics.
func (s *Shared[T]) unlocked(read func() (T, time.Duration)) func() (T, time.Duration) {
	return func() (T, time.Duration) {
		s.reading = true
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			s.reading = false
		}()
		return read()
	}
}

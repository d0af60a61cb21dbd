package breaker

import (
	"time"
)

// windowSlices is in how many slices a window counts: what is older than it lapses a slice at a time.
const windowSlices = 10

// window counts the attempts that have ended within a while. The zero value is empty.
type window [windowSlices]struct {
	number int64 // of the slice
	counts
}

// add counts an attempt that ended at a monotonic time.
func (w *window) add(now, length time.Duration, failed bool) {
	number := sliceAt(now, length)
	s := &w[(number%windowSlices+windowSlices)%windowSlices] // monotonic time may be negative
	if s.number != number {
		s.number, s.counts = number, counts{}
	}
	s.note(failed)
}

func (c *counts) note(failed bool) {
	if failed {
		c.failed++
	} else {
		c.succeeded++
	}
}

// sum returns what was counted within the window that ends now.
func (w *window) sum(now, length time.Duration) (all counts) {
	number := sliceAt(now, length)
	for i := range w {
		if s := &w[i]; s.number > number-windowSlices && s.number <= number {
			all.succeeded, all.failed = all.succeeded+s.succeeded, all.failed+s.failed
		}
	}
	return all
}

// sliceAt returns the number of the slice at a monotonic time.
func sliceAt(now, length time.Duration) int64 { return int64(now / (length / windowSlices)) }

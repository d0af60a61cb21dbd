package task

import (
	"math"
	"time"
)

// Instant is a time in Unix microseconds. The zero Instant means "never". Due times are whole milliseconds;
// starts and ends keep microseconds, so that lateness can be measured below a millisecond.
type Instant int64

// InstantOf converts a time, truncated to microseconds.
func InstantOf(t time.Time) Instant {
	if t.IsZero() {
		return 0
	}
	return Instant(t.UnixMicro())
}

// FromMillis converts a Unix time in milliseconds.
func FromMillis(ms int64) Instant { return Instant(ms * 1000) }

// IsZero reports whether the instant is "never".
func (i Instant) IsZero() bool { return i == 0 }

// Add returns the instant d later.
func (i Instant) Add(d time.Duration) Instant { return i + Instant(d/time.Microsecond) }

// Sub returns the time from u to i.
func (i Instant) Sub(u Instant) time.Duration { return Micros(int64(i - u)) }

// Millis returns Unix milliseconds, rounded down.
func (i Instant) Millis() int64 { return int64(i) / 1000 }

// CeilMillis rounds up to whole milliseconds, so that rounding never makes a task due early.
func (i Instant) CeilMillis() Instant { return (i + 999) / 1000 * 1000 }

// Time converts to a time.Time in UTC, and "never" to the zero time.
func (i Instant) Time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(i)).UTC()
}

// Micros converts microseconds to a duration, limited to the longest one there is.
func Micros(n int64) time.Duration {
	const most = int64(math.MaxInt64 / time.Microsecond)
	return time.Duration(min(max(n, -most), most)) * time.Microsecond
}

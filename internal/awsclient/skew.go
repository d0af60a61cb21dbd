package awsclient

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// SkewMax is how far this machine's clock may differ from that of AWS. Signatures tolerate five minutes, but
// several processes judge the lease of a worker by their own clocks: a worker stops a quarter of its lease
// before the others take it for lost, which is 3.75 s by default.
const SkewMax = 2 * time.Second

// dateResolution is the precision of the Date header: whole seconds, and servers may cache it for a second.
const dateResolution = 2 * time.Second

// serverClock compares our clock with the Date of answers, which gives bounds of the difference.
type serverClock struct {
	clock clock.Clock

	mu    sync.Mutex
	ahead time.Duration // ours is ahead by at least this; negative: behind by at least that
}

// watch returns a transport that notes the Date of each answer of next.
func (s *serverClock) watch(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		began := s.clock.Now()
		response, err := next.RoundTrip(r)
		if err == nil {
			s.note(began, s.clock.Now(), response.Header.Get("Date"))
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// note takes the Date of an answer that the server gave between two readings of our clock.
func (s *serverClock) note(began, ended task.Instant, date string) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = clock.Ahead(began, ended, task.InstantOf(at), dateResolution)
}

// CheckClock returns ErrClock if this machine's clock is too far off, by the newest answer of AWS.
func (c *Clients) CheckClock() error {
	c.clock.mu.Lock()
	defer c.clock.mu.Unlock()
	if c.clock.ahead.Abs() <= SkewMax {
		return nil
	}
	return clockError(c.clock.ahead, nil)
}

func clockError(ahead time.Duration, cause error) *Error {
	direction := "ahead of"
	if ahead < 0 {
		direction = "behind"
	}
	return &Error{Kind: ErrClock, Err: cause, Text: fmt.Sprintf(
		"this machine's clock is at least %v %s that of AWS, and may be off by %v: signatures and the leases of workers depend on it; "+
			"synchronise it (chrony, systemd-timesyncd)", ahead.Abs().Round(time.Second), direction, SkewMax)}
}

package awsclient

import (
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// SkewMax is how far this machine's clock may be from that of AWS. Signatures bear five minutes, but the
// leases of workers are judged by the clocks of several processes: a worker gives up a quarter of its lease
// before the others take it for lost, which is 3.75 s of the default one.
const SkewMax = 2 * time.Second

// dateResolution is how exact the Date header is: it is cut to seconds, and servers may keep one for as long.
const dateResolution = 2 * time.Second

// serverClock compares our clock with the Date of answers. It knows bounds, not the difference itself.
type serverClock struct {
	clock clock.Clock

	mu    sync.Mutex
	ahead time.Duration // ours is ahead by at least this; negative: behind by at least as much
}

// watch returns next, with a look at the answers.
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

// note takes in one answer, which the server gave between two readings of our clock.
func (s *serverClock) note(began, ended task.Instant, date string) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	theirs := task.InstantOf(at)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case began > theirs.Add(dateResolution):
		s.ahead = began.Sub(theirs.Add(dateResolution))
	case ended < theirs:
		s.ahead = ended.Sub(theirs)
	default:
		s.ahead = 0
	}
}

// CheckClock says by the newest answer of AWS whether this machine's clock can be used; ErrClock when not.
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

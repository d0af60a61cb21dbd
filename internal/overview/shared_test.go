package overview_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/overview"
)

// While a figure is read again, slowly, callers get what was read before.
func TestNobodyWaitsForASlowRead(t *testing.T) {
	var s overview.Shared[int]
	of := func(n int) func() (int, time.Duration) { return func() (int, time.Duration) { return n, 0 } }
	c := clock.Real()
	s.Get(c, 0, of(1))
	reading, goOn, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		s.Get(c, 0, func() (int, time.Duration) {
			close(reading)
			<-goOn
			return 2, time.Hour
		})
	}()
	<-reading
	if n := s.Get(c, 0, of(3)); n != 1 {
		t.Errorf("%d while it is read", n)
	}
	close(goOn)
	<-done
	if n := s.Get(c, 0, of(3)); n != 2 {
		t.Errorf("%d after it was read", n)
	}
}

package backoff_test

import (
	"math"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// still is a clock that stands still, whose every random number is the largest.
type still struct {
	clock.Clock
	now task.Instant
}

func (s *still) Now() task.Instant { return s.now }
func (s *still) Uint64() uint64    { return math.MaxUint64 }

func TestABreakerPausesLongerWithEveryFailure(t *testing.T) {
	c := &still{Clock: clock.Real(), now: 1_000_000}
	b := backoff.Breaker{Policy: backoff.Policy{Min: time.Second, Max: 3 * time.Second}}
	for _, want := range []time.Duration{2 * time.Second, 3 * time.Second, 3 * time.Second} {
		if got := b.Failed(c); got != want || b.Left(c) != want {
			t.Errorf("a pause of %v, %v left: want %v", got, b.Left(c), want)
		}
	}
	c.now = c.now.Add(3 * time.Second)
	if left := b.Left(c); left != 0 {
		t.Errorf("%v left at the end of the pause", left)
	}
	b.Failed(c)
	b.Succeeded()
	if left := b.Left(c); left != 0 {
		t.Errorf("%v left after a success", left)
	}
	if got := b.Failed(c); got != 2*time.Second {
		t.Errorf("a pause of %v after a success: want that of the first failure", got)
	}
	if b.Worked(); b.Fails() || b.Left(c) != 2*time.Second {
		t.Errorf("another call worked: fails: %v, %v left: want the whole pause", b.Fails(), b.Left(c))
	}
	if got := b.Failed(c); got != 2*time.Second || !b.Fails() {
		t.Errorf("a pause of %v, fails: %v: want that of the first failure", got, b.Fails())
	}
}

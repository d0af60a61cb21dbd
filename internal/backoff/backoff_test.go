package backoff_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
)

// chance is a clock whose every random number is the same.
type chance struct {
	clock.Clock
	bits uint64
}

func (c chance) Uint64() uint64 { return c.bits }

func TestPausesDoubleUpToTheCap(t *testing.T) {
	p := backoff.Policy{Min: 10 * time.Millisecond, Max: time.Second}
	for _, c := range []struct {
		failures          int
		shortest, longest time.Duration
	}{
		{-1, 10 * time.Millisecond, 10 * time.Millisecond},
		{0, 10 * time.Millisecond, 10 * time.Millisecond},
		{1, 10 * time.Millisecond, 20 * time.Millisecond},
		{3, 10 * time.Millisecond, 80 * time.Millisecond},
		{7, 10 * time.Millisecond, time.Second},
		{1000, 10 * time.Millisecond, time.Second},
	} {
		if got := p.Pause(chance{clock.Real(), 0}, c.failures); got != c.shortest {
			t.Errorf("after %d failures the shortest pause is %s, want %s", c.failures, got, c.shortest)
		}
		if got := p.Pause(chance{clock.Real(), math.MaxUint64}, c.failures); got != c.longest {
			t.Errorf("after %d failures the longest pause is %s, want %s", c.failures, got, c.longest)
		}
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	why := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := (backoff.Policy{Min: time.Hour, Max: time.Hour}).Sleep(ctx, clock.Real(), 1); !errors.Is(err, why) {
		t.Errorf("error %v, want the cause of the context's end", err)
	}
}

package task_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/task"
)

func TestBackoffStaysWithinItsBounds(t *testing.T) {
	waits := rapid.Int64Range(1, math.MaxInt64)
	rapid.Check(t, func(t *rapid.T) {
		p := task.Policy{BackoffMin: time.Duration(waits.Draw(t, "min")), BackoffMax: time.Duration(waits.Draw(t, "max"))}
		p.BackoffMax = max(p.BackoffMin, p.BackoffMax)
		failures := rapid.OneOf(rapid.Uint32Max(70), rapid.Uint32()).Draw(t, "failures")
		got := p.Backoff(failures, rapid.Uint64().Draw(t, "jitter"))
		if got < p.BackoffMin || got > p.BackoffMax {
			t.Fatalf("wait of %v after %d failures, want %v to %v", got, failures, p.BackoffMin, p.BackoffMax)
		}
		if ceiling := float64(p.BackoffMin) * math.Pow(2, float64(failures)); float64(got) > ceiling*(1+1e-9) {
			t.Fatalf("wait of %v after %d failures is above %v·2^%d", got, failures, p.BackoffMin, failures)
		}
	})
}

func TestBackoffUsesAllOfItsRange(t *testing.T) {
	p := task.Policy{BackoffMin: time.Second, BackoffMax: 10 * time.Minute}
	for _, c := range []struct {
		failures     uint32
		lowest, most time.Duration
	}{
		{0, time.Second, time.Second},
		{1, time.Second, 2 * time.Second},
		{2, time.Second, 4 * time.Second},
		{9, time.Second, 512 * time.Second},
		{10, time.Second, 10 * time.Minute},
		{63, time.Second, 10 * time.Minute},
		{64, time.Second, 10 * time.Minute},
		{math.MaxUint32, time.Second, 10 * time.Minute},
	} {
		if got := p.Backoff(c.failures, 0); got != c.lowest {
			t.Errorf("after %d failures at least %v, want %v", c.failures, got, c.lowest)
		}
		if got := p.Backoff(c.failures, math.MaxUint64); got != c.most {
			t.Errorf("after %d failures at most %v, want %v", c.failures, got, c.most)
		}
	}
}

// Full jitter is uniform: equal steps of the random bits are equal steps of the wait.
func TestBackoffIsUniform(t *testing.T) {
	p := task.Policy{BackoffMin: time.Second, BackoffMax: time.Hour}
	const steps = 1 << 10
	var sum time.Duration
	last := time.Duration(-1)
	for i := range uint64(steps) {
		got := p.Backoff(20, i<<54)
		if got < last {
			t.Fatalf("step %d waits %v, the step before %v", i, got, last)
		}
		last = got
		sum += got - p.BackoffMin
	}
	half := (p.BackoffMax - p.BackoffMin) / 2
	if mean := sum / steps; mean < half*99/100 || mean > half*101/100 {
		t.Errorf("the mean wait above the minimum is %v, want %v", mean, half)
	}
}

func TestEnqueueTimeoutRisesToItsCap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.OneOf(rapid.Uint32Max(20), rapid.Uint32Max(math.MaxUint32-1)).Draw(t, "enqueues")
		this, next := task.EnqueueTimeoutAfter(n), task.EnqueueTimeoutAfter(n+1)
		if this < task.EnqueueTimeout || next > task.EnqueueTimeoutMax || next != min(2*this, task.EnqueueTimeoutMax) {
			t.Fatalf("%v after %d sends, %v after the next", this, n, next)
		}
	})
}

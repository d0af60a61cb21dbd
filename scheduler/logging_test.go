package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

func TestLogLimiterIsBounded(t *testing.T) {
	v := clock.NewVirtual(task.Instant(1_700_000_000_000_000), 1)
	c, q := v.Process(0), newLogLimiter()
	news := func(from, to int) (logged int) {
		for i := from; i < to; i++ {
			if is, _ := q.allow(c, "partition", fmt.Errorf("%w: %d", queue.ErrMissing, i)); is {
				logged++
			}
		}
		return logged
	}
	for _, step := range []struct{ from, to, want int }{{0, failureKindsMax, failureKindsMax}, {0, 10, 0}, {5000, 5010, 0}} {
		if n := news(step.from, step.to); n != step.want {
			t.Errorf("%d to %d: logged %d, want %d", step.from, step.to, n, step.want)
		}
	}
	v.Advance(missingQueueLogEvery)
	if n := news(5000, 5010); n != 10 || len(q.last) != 10 {
		t.Errorf("when the others are old: logged %d, want 10; %d are remembered", n, len(q.last))
	}
}

// Hundreds of partitions meet the same outage; each failure has a connection and a request of its own.
func TestEachKindOfFailureIsLoggedOnceInAWhile(t *testing.T) {
	v := clock.NewVirtual(task.Instant(1_700_000_000_000_000), 1)
	c, q := v.Process(0), newLogLimiter()
	meet := func(what string, err func(n int) error) (logged, more int) {
		for n := range 500 {
			if is, since := q.allow(c, what, err(n)); is {
				logged++
				more += since
			}
		}
		return logged, more
	}
	hung := func(n int) error {
		return fmt.Errorf("table k1-schedule: Query, RequestID: %dQXA, read tcp 127.0.0.1:%d->127.0.0.1:8000: %w", n, 30_000+n, context.DeadlineExceeded)
	}
	away := func(n int) error {
		return fmt.Errorf("dial tcp 127.0.0.1:8000: try %d: %w", n, errors.New("connection refused"))
	}
	for round, want := range []int{0, 499, 499} {
		for name, err := range map[string]func(int) error{"hung": hung, "away": away} {
			if logged, more := meet("partition", err); logged != 1 || more != want {
				t.Errorf("round %d: %s: logged %d times, with %d more, want once, with %d", round, name, logged, more, want)
			}
		}
		v.Advance(failureLogEvery)
	}
	if logged, _ := meet("tasks", hung); logged != 1 {
		t.Errorf("from elsewhere: logged %d times, want once", logged)
	}
	if kind := failureKind(errors.New(strings.Repeat("ä", failureKindBytesMax))); len(kind) > 2*failureKindBytesMax {
		t.Errorf("a kind of %d bytes", len(kind))
	}
}

package scheduler

import (
	"errors"
	"fmt"
	"testing"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

func TestQuietIsBounded(t *testing.T) {
	v := clock.NewVirtual(task.Instant(1_700_000_000_000_000), 1)
	c, q := v.Process(0), &quiet{}
	news := func(from, to int) (logged int) {
		for i := from; i < to; i++ {
			if q.isNews(c, fmt.Errorf("%w: %d", queue.ErrMissing, i)) {
				logged++
			}
		}
		return logged
	}
	for _, step := range []struct{ from, to, want int }{{0, missingMax, missingMax}, {0, 10, 0}, {5000, 5010, 0}} {
		if n := news(step.from, step.to); n != step.want {
			t.Errorf("%d to %d: logged %d, want %d", step.from, step.to, n, step.want)
		}
	}
	v.Advance(missingEvery)
	if n := news(5000, 5010); n != 10 || len(q.last) != 10 {
		t.Errorf("when the others are old: logged %d, want 10; %d are remembered", n, len(q.last))
	}
	for range 3 {
		if !q.isNews(c, errors.New("away")) {
			t.Error("another error is not logged each time")
		}
	}
}

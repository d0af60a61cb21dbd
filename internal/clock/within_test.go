package clock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

func TestWithinEndsAtItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := clock.NewVirtual(task.FromMillis(1_000), 1)
		ctx, cancel := clock.Within(t.Context(), v.Process(0), time.Second)
		defer cancel()
		v.Advance(time.Second - time.Microsecond)
		synctest.Wait()
		if ctx.Err() != nil {
			t.Fatal("ended early")
		}
		v.Advance(time.Microsecond)
		<-ctx.Done()
		if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
			t.Errorf("cause is %v", cause)
		}
	})
}

func TestWithinLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	v := clock.NewVirtual(task.FromMillis(1_000), 1)
	ctx, cancel := clock.Within(t.Context(), v.Process(0), time.Second)
	cancel()
	if _, armed := v.Next(); armed || ctx.Err() == nil {
		t.Errorf("timer armed: %v, context ended: %v", armed, ctx.Err() != nil)
	}
	ctx, cancel = clock.Within(t.Context(), clock.Real(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
}

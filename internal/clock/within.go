package clock

import (
	"context"
	"time"
)

// Within returns a context that ends after d on the clock, with context.DeadlineExceeded as its cause. The
// caller must call the cancel function to release the context's resources.
func Within(ctx context.Context, c Clock, d time.Duration) (context.Context, context.CancelFunc) {
	if c == Real() {
		return context.WithTimeout(ctx, d) // cheaper than a goroutine
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := c.NewTimer(d)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		defer timer.Stop()
		select {
		case <-timer.C():
			cancel(context.DeadlineExceeded)
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		cancel(context.Canceled)
		<-stopped
	}
}

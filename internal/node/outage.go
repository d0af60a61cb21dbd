package node

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
)

// outage tells for how long all calls to a service have failed. It is safe for concurrent use.
type outage struct {
	clock clock.Clock
	since atomic.Int64 // monotonic time, plus 1 so that 0 means that the last call succeeded
}

// note notes how a call ended. A refusal shows that the service answers; a call that was cancelled shows
// nothing.
func (o *outage) note(err error) {
	switch {
	case err == nil, !errors.Is(err, store.ErrUnreachable) && !errors.Is(err, store.ErrUnknown) && !errors.Is(err, queue.ErrUnreachable) &&
		!errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		if o.since.Load() != 0 {
			o.since.Store(0)
		}
	case !errors.Is(err, context.Canceled):
		o.since.CompareAndSwap(0, int64(clock.Mono(o.clock))+1)
	}
}

// lasts returns for how long no call has succeeded; 0 if the last one did.
func (o *outage) lasts() time.Duration {
	since := o.since.Load()
	if since == 0 {
		return 0
	}
	return max(0, clock.Mono(o.clock)-time.Duration(since-1))
}

package inbound

import (
	"context"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/gather"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// removalLinger is how long messages wait to be deleted together. They are hidden for far longer
	// (holdFor, less holdEvery).
	removalLinger   = time.Second
	removalSendsMax = 4
	// lastsMin is how long the row of a task must be there at least for its message to wait so: see lasts.
	lastsMin = task.RetentionMin
)

// lasts reports whether the row of a task that came out of the buffer is there for long enough: if the
// process is killed before its message is deleted, that comes again, and is refused by the row. A task of a
// deliver lambda leaves none: it would be sent twice.
func lasts(l *catalog.Entry, due, now task.Instant) bool {
	return l.Mode == task.Managed || due > now.Add(queue.DelayMax+lastsMin)
}

// removal deletes messages that nobody waits for: those of several receives in one request.
type removal struct {
	*gather.Gatherer[buffer.Message]

	ctx    context.Context //nolint:containedctx // of what is under way; it ends with the consumer
	cancel context.CancelFunc
	calls  sync.WaitGroup
}

func newRemoval(ctx context.Context, in *Inbound) *removal {
	r := &removal{Gatherer: gather.New(gather.Config[buffer.Message]{
		Clock: in.Clock, ItemsMax: buffer.BatchMax, SendsMax: removalSendsMax, Linger: removalLinger,
		Send: func(ctx context.Context, messages []buffer.Message) []error {
			ctx, cancel := clock.Within(ctx, in.Clock, settleMax)
			defer cancel()
			return repeat(in.Buffering.Buffer.Delete(ctx, messages), len(messages))
		},
	})}
	r.ctx, r.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return r
}

// add returns at once. What is not deleted comes again, so an error is for nobody: the buffer counts its
// requests.
func (r *removal) add(messages []buffer.Message) {
	if len(messages) > 0 {
		r.calls.Go(func() { _ = r.Do(r.ctx, messages) })
	}
}

// end deletes what waits, now.
func (r *removal) end(ctx context.Context) error {
	err := r.Close(ctx)
	r.cancel()
	r.calls.Wait()
	return err
}

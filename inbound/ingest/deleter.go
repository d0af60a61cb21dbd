package ingest

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/gather"
)

const (
	settleMax = 20 * time.Second // bounds requests that delete messages or make them come again
	// deleteLinger is how long messages wait to be deleted together. They stay hidden for far longer
	// (hideFor, less hideEvery).
	deleteLinger   = time.Second
	deleteSendsMax = 4
)

// deleter deletes the messages of several receives in one request.
type deleter struct {
	*gather.Gatherer[buffer.Message]

	ctx    context.Context //nolint:containedctx // of deletes in flight; it ends with the consumer
	cancel context.CancelFunc
	calls  sync.WaitGroup
}

func newDeleter(ctx context.Context, in *Ingest) *deleter {
	d := &deleter{Gatherer: gather.New(gather.Config[buffer.Message]{
		Clock: in.Clock, ItemsMax: buffer.BatchMax, SendsMax: deleteSendsMax, Linger: deleteLinger,
		Send: func(ctx context.Context, messages []buffer.Message) []error {
			ctx, cancel := clock.Within(ctx, in.Clock, settleMax)
			defer cancel()
			return slices.Repeat([]error{in.Buffer.Delete(ctx, messages)}, len(messages))
		},
	})}
	d.ctx, d.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return d
}

// add returns at once. It drops errors: a message that is not deleted comes again, and the buffer counts its
// requests.
func (d *deleter) add(messages []buffer.Message) {
	if len(messages) > 0 {
		d.calls.Go(func() { _ = d.Do(d.ctx, messages) })
	}
}

// end deletes what waits, now.
func (d *deleter) end(ctx context.Context) error {
	err := d.Close(ctx)
	d.cancel()
	d.calls.Wait()
	return err
}

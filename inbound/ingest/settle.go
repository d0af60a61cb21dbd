package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	settleMax = 20 * time.Second // bounds requests that delete messages or make them come again
	// deleteLinger is how long messages wait to be deleted together. They stay hidden for far longer
	// (hideFor, less hideEvery).
	deleteLinger   = time.Second
	deleteSendsMax = 4
	// rowLifeMin is how long the row of a task must exist at least for its message to wait so: see
	// redeliverable.
	rowLifeMin = task.RetentionMin
)

// redeliverable reports whether a task that came out of the buffer may come again soon: if the process is
// killed before it deletes the message, the row of the task refuses the second one. A task of a deliver
// lambda leaves no row and would be sent twice.
func redeliverable(l *catalog.Entry, due, now task.Instant) bool {
	return l.Mode == task.Managed || due > now.Add(queue.DelayMax+rowLifeMin)
}

// finish deletes the messages that are done with and makes the others come again.
func (in *Ingest) finish(ctx context.Context, all []message, d *deleter) error {
	ctx, cancel := clock.Within(ctx, in.Clock, settleMax)
	defer cancel()
	var now, batched []buffer.Message
	again := map[time.Duration][]buffer.Message{} // by whole seconds, so that few requests do
	for i := range all {
		m := &all[i]
		switch {
		case m.again > 0:
			after := max(m.again.Truncate(time.Second), time.Second)
			again[after] = append(again[after], m.Message)
		case m.redeliverable:
			batched = append(batched, m.Message)
		case m.ignored != "":
		default:
			now = append(now, m.Message)
		}
	}
	var errs []error
	if len(now) > 0 {
		errs = append(errs, in.Buffer.Delete(ctx, append(now, batched...))) // there is a request anyway
	} else {
		d.add(batched)
	}
	for after, messages := range again {
		errs = append(errs, in.Buffer.Retry(ctx, messages, after))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("settle messages of the inbound buffer: %w", err) // they come again when their visibility ends
	}
	return nil
}

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

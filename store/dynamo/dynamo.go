package dynamo

import (
	"context"
	"sync"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Driver is a store.Driver on DynamoDB. All its state is in the tables.
type Driver struct {
	client  client
	batcher *batcher
	overdue overduePayloads

	life   sync.Mutex     // guards closed
	closed bool           // no call begins any more
	calls  sync.WaitGroup // in progress
}

// New returns a driver on tables that exist: see Check and Setup. It sends no request.
func New(api API, c Config) *Driver {
	c = c.withDefaults()
	d := &Driver{client: client{cfg: c, api: api, tables: newTables(c.Prefix)}}
	d.client.base, d.client.end = context.WithCancel(context.Background()) //nolint:fatcontext // in no loop
	d.batcher = newBatcher(&d.client)
	return d
}

// enter begins a call, which Close then waits for; leave ends it.
func (d *Driver) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d.life.Lock()
	defer d.life.Unlock()
	if d.closed {
		return store.ErrClosed
	}
	d.calls.Add(1)
	return nil
}

func (d *Driver) leave() { d.calls.Done() }

// Close waits for the calls and requests in progress, and for deferred deletions. It does not close the
// client.
func (d *Driver) Close() error {
	d.life.Lock()
	again := d.closed
	d.closed = true
	d.life.Unlock()
	d.calls.Wait()
	if !again {
		d.batcher.drain()
		d.client.end()
	}
	d.client.running.Wait()
	return nil
}

// Apply implements store.Driver. The writes of all calls share requests.
func (d *Driver) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	if len(ops) == 0 {
		return nil, nil
	}
	return d.batcher.apply(ctx, ops)
}

// Sweep implements store.Driver. It does nothing: TTL deletes ended rows some time after they expire.
func (d *Driver) Sweep(ctx context.Context, _ task.Instant, _ int) (int, error) {
	if err := d.enter(ctx); err != nil {
		return 0, err
	}
	d.leave()
	return 0, nil
}

package dynamo

import (
	"context"

	"github.com/kinesin-io/kinesin/store"
)

// call is one Apply that waits for its writes.
type call struct {
	results []error
	left    int  // guarded by writes.mu: writes that are not answered, and 1 until all were begun
	gone    bool // guarded by writes.mu: the caller gave up, and what was not sent is not sent
	done    chan struct{}
}

// Apply implements store.Driver. The writes of all calls share requests; see writes.
func (d *Driver) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	if len(ops) == 0 {
		return nil, nil
	}
	c := &call{results: make([]error, len(ops)), left: 1, done: make(chan struct{})}
	heads := d.plan(ctx, c, ops)
	d.begin(c, heads)
	select {
	case <-c.done:
		return c.results, nil
	case <-ctx.Done():
		d.abandon(c)
		return nil, context.Cause(ctx)
	}
}

// plan encodes the ops of a call. Ops on one key are applied in order, and an op that follows another after
// that one; heads are those that can begin at once.
func (d *Driver) plan(ctx context.Context, c *call, ops []store.Op) (heads []*write) {
	all := make([]write, len(ops))
	heads = make([]*write, 0, len(ops))
	kept := d.keepPayloads(ctx, ops)
	var last map[uint64]*write
	if len(ops) > 1 {
		last = make(map[uint64]*write, len(ops))
	}
	for i := range ops {
		w := &all[i]
		w.call, w.at = c, i
		err := d.encode(w, &ops[i])
		if err == nil && kept != nil {
			err = kept[i]
		}
		if err == nil && ops[i].Follows && (i == 0 || c.results[i-1] != nil) {
			err = store.ErrSkipped
		}
		if err != nil {
			c.results[i] = err
			continue
		}
		c.left++
		w.hashKey()
		if ops[i].Follows {
			all[i-1].follower = w
			w.before++
		}
		if before := last[w.hash]; before != nil {
			before.next = append(before.next, w)
			w.before++
		}
		if w.before == 0 {
			heads = append(heads, w)
		}
		if last != nil {
			last[w.hash] = w
		}
	}
	return heads
}

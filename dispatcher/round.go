package dispatcher

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/kinesin-io/kinesin/task"
)

// round is one Deliver on its way.
type round struct {
	*Courier

	mu      sync.Mutex // guards what follows
	left    []task.Undelivered
	open    map[*parcel]struct{} // acquired, and not through with all steps
	through chan struct{}        // has an element when the last open one is through
}

// parcel is an acquired task on its way.
type parcel struct {
	round   *round
	order   task.Order // Sent is guarded by round.mu
	payload []byte
}

// opened makes parcels of orders.
func (r *round) opened(orders []task.Order) []*parcel {
	parcels := make([]*parcel, len(orders))
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range orders {
		parcels[i] = &parcel{round: r, order: orders[i], payload: orders[i].Task.Payload}
		r.open[parcels[i]] = struct{}{}
	}
	return parcels
}

// wait waits until no parcel is open. Those that are when ctx ends are left; what they share with other calls
// goes on.
func (r *round) wait(ctx context.Context) {
	for open := r.stillOpen(); len(open) > 0; open = r.stillOpen() {
		select {
		case <-r.through:
		case <-ctx.Done():
			for _, p := range open {
				p.close(context.Cause(ctx))
			}
		}
	}
}

func (r *round) stillOpen() []*parcel {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.open))
}

// isOpen reports whether a call still waits for the parcel.
func (p *parcel) isOpen() bool {
	p.round.mu.Lock()
	defer p.round.mu.Unlock()
	_, open := p.round.open[p]
	return open
}

// sent notes that the task is on its queue.
func (p *parcel) sent() {
	p.round.mu.Lock()
	defer p.round.mu.Unlock()
	p.order.Sent = true
}

// close notes that the parcel is through with all steps, or why it is left.
func (p *parcel) close(err error) {
	r := p.round
	r.mu.Lock()
	_, open := r.open[p]
	delete(r.open, p)
	last, o := open && len(r.open) == 0, p.order
	if open && err != nil {
		r.left = append(r.left, task.Undelivered{Order: o, Acquired: true, Err: err})
	}
	r.mu.Unlock()
	if last {
		wake(r.through)
	}
	if open && err != nil && !o.Sent && r.Hooks.Undelivered != nil {
		r.Hooks.Undelivered(&o.Task, err)
	}
}

// leave notes an order that could not even be acquired.
func (r *round) leave(o *task.Order, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = append(r.left, task.Undelivered{Order: *o, Err: err})
}

// wake leaves an element in a channel that has room for one.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

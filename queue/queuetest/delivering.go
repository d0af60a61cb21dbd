package queuetest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// DeliveringBytesMax is the largest payload that Delivering takes.
const DeliveringBytesMax = 256 << 10

// Delivering makes any driver one that delivers: what it is given is recorded, where a consumer's
// queue would be. It stands in for SQS in tests of lambdas in deliver mode.
type Delivering struct {
	queue.Driver

	now func() task.Instant

	mu          sync.Mutex
	decide      func(*queue.Delivery) Fault
	delivered   []Delivered
	provisioned []task.Lambda
	arrived     chan struct{} // closed at the next arrival
}

// Delivered is a delivery and when it was put on its queue.
type Delivered struct {
	queue.Delivery

	At task.Instant
}

// VisibleAt is when a consumer can see it.
func (d *Delivered) VisibleAt() task.Instant { return d.At.Add(d.Delay) }

// NewDelivering wraps d.
func NewDelivering(d queue.Driver, now func() task.Instant) *Delivering {
	return &Delivering{Driver: d, now: now, arrived: make(chan struct{})}
}

// Decide sets what decides about every delivery from now on; nil means no faults. Calls of it take turns.
func (d *Delivering) Decide(decide func(*queue.Delivery) Fault) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.decide = decide
}

// Deliver implements queue.Deliverer.
func (d *Delivering) Deliver(ctx context.Context, deliveries []queue.Delivery) []error {
	d.mu.Lock()
	defer d.mu.Unlock()
	results := make([]error, len(deliveries))
	now, before := d.now(), len(d.delivered)
	for i := range deliveries {
		fault := NoFault
		if d.decide != nil {
			fault = d.decide(&deliveries[i])
		}
		if ctx.Err() != nil {
			fault = NotApplied
		}
		if fault != NoFault {
			results[i] = ErrInjected
		}
		if fault != NotApplied {
			copied := deliveries[i]
			copied.Payload = slices.Clone(copied.Payload)
			d.delivered = append(d.delivered, Delivered{copied, now})
		}
	}
	if len(d.delivered) > before {
		close(d.arrived)
		d.arrived = make(chan struct{})
	}
	return results
}

// CheckPayload implements queue.Deliverer; it refuses more than DeliveringBytesMax.
func (d *Delivering) CheckPayload(payload []byte) error {
	if len(payload) > DeliveringBytesMax {
		return fmt.Errorf("%w: %d bytes, want at most %d", queue.ErrUndeliverable, len(payload), DeliveringBytesMax)
	}
	return nil
}

// Delivered is everything that was put on a queue so far, and a channel that is closed when there is more.
func (d *Delivering) Delivered() ([]Delivered, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.delivered), d.arrived
}

// CheckLambda implements queue.Provisioner; every name will do.
func (d *Delivering) CheckLambda(task.Lambda, ...task.Lambda) error { return nil }

// Provision implements queue.Provisioner.
func (d *Delivering) Provision(_ context.Context, l task.Lambda) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.provisioned = append(d.provisioned, l)
	return nil
}

// Missing implements queue.Provisioner; none is.
func (d *Delivering) Missing(context.Context, task.Lambda) ([]string, error) { return nil, nil }

// Provisioned are the lambdas whose queues were asked for, in order.
func (d *Delivering) Provisioned() []task.Lambda {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.provisioned)
}

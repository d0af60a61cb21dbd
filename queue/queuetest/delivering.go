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

// Delivering adds deliveries to any driver: it records them in place of a consumer's queue. Tests of
// lambdas in deliver mode use it instead of SQS.
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

// VisibleAt returns when a consumer can receive it.
func (d *Delivered) VisibleAt() task.Instant { return d.At.Add(d.Delay) }

// NewDelivering wraps d.
func NewDelivering(d queue.Driver, now func() task.Instant) *Delivering {
	return &Delivering{Driver: d, now: now, arrived: make(chan struct{})}
}

// Decide sets the function that decides about every delivery from now on; nil means no faults. Its calls do
// not overlap.
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

// Delivered returns all deliveries so far, and a channel that is closed when there are more.
func (d *Delivering) Delivered() ([]Delivered, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.delivered), d.arrived
}

// CheckLambda implements queue.Provisioner. It accepts every name.
func (d *Delivering) CheckLambda(task.Lambda, ...task.Lambda) error { return nil }

// Provision implements queue.Provisioner.
func (d *Delivering) Provision(_ context.Context, l task.Lambda) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.provisioned = append(d.provisioned, l)
	return nil
}

// Missing implements queue.Provisioner. No queue is missing.
func (d *Delivering) Missing(context.Context, task.Lambda) ([]string, error) { return nil, nil }

// Provisioned returns the lambdas whose queues were provisioned, in order.
func (d *Delivering) Provisioned() []task.Lambda {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.provisioned)
}

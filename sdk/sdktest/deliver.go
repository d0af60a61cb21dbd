package sdktest

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

// Delivery is a message of a deliver lambda, as its consumer gets it.
type Delivery struct {
	ID          sdk.ID
	Lambda      string
	Priority    string
	Payload     []byte
	Due         time.Time
	At          time.Time // when it was put on the queue
	Traceparent string
}

// Delivered returns what was put on the queue of a deliver lambda so far, in that order. Nothing is taken
// from the queue. As on a server with --deliver-direct 0, every task waits for its due time, is delivered to
// the millisecond and can be cancelled until then.
func (k *Kinesin) Delivered(lambda string) []Delivery {
	k.tb.Helper()
	info, err := admin.New(k.client).Lambdas.Get(k.base, lambda)
	if err != nil {
		k.tb.Fatalf("sdktest: deliveries of lambda %s: %v", lambda, err)
	}
	var all []Delivery
	for _, d := range k.outbox.all() {
		p := d.task.Partition
		if k.tracker.nameOf(p.Lambda) != lambda {
			continue
		}
		all = append(all, Delivery{
			ID: sdk.ID(d.id), Lambda: lambda, Priority: info.Priorities[p.Priority], Payload: bytes.Clone(d.payload),
			Due: d.task.Due.Time(), At: d.at.Time(), Traceparent: d.task.Traceparent,
		})
	}
	return all
}

// outbox is a queue that keeps what is delivered. The server deletes the rows of tasks after their delivery,
// so the tracker waits for it.
type outbox struct {
	*queuemem.Driver

	now func() task.Instant

	mu   sync.Mutex
	sent []delivered
}

type delivered struct {
	task    task.Task
	id      string
	payload []byte
	at      task.Instant
}

// outboxBytesMax is the largest payload that SQS takes.
const outboxBytesMax = 256 << 10

// Deliver implements queue.Deliverer.
func (o *outbox) Deliver(_ context.Context, deliveries []queue.Delivery) []error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, d := range deliveries {
		o.sent = append(o.sent, delivered{task: d.Task, id: d.ID, payload: bytes.Clone(d.Payload), at: o.now()})
	}
	return make([]error, len(deliveries))
}

// CheckPayload implements queue.Deliverer.
func (o *outbox) CheckPayload(payload []byte) error {
	if len(payload) > outboxBytesMax {
		return queue.ErrUndeliverable
	}
	return nil
}

func (o *outbox) all() []delivered {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.sent)
}

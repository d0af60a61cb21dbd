package control

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// OnDemand has a copy of all rows of a kind, which it reads when somebody asks: rows that nobody needs cost
// nothing. It is safe for concurrent use.
type OnDemand[V any] struct {
	cfg     CopyConfig[V]
	reading chan struct{} // holds a token while one call reads

	mu      sync.Mutex
	value   V
	readAt  time.Duration // monotonic time when the newest read began
	hasRead bool
}

// NewOnDemand returns a copy that was not read yet.
func NewOnDemand[V any](c CopyConfig[V]) *OnDemand[V] {
	return &OnDemand[V]{cfg: c, reading: make(chan struct{}, 1)}
}

// Look calls see with a copy that is at most as old as age; nothing else uses the copy meanwhile. While the
// store does not answer it returns an error: an older copy decides nothing.
func (d *OnDemand[V]) Look(ctx context.Context, age time.Duration, see func(known *V)) error {
	if err := d.refresh(ctx, age); err != nil {
		return err
	}
	d.UpdateCopy(see)
	return nil
}

// UpdateCopy calls update with the copy, however old it is. It changes no row.
func (d *OnDemand[V]) UpdateCopy(update func(known *V)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	update(&d.value)
}

// refresh reads the rows unless the copy is not older than age. One call at a time reads.
func (d *OnDemand[V]) refresh(ctx context.Context, age time.Duration) error {
	if d.isFresh(age) {
		return nil
	}
	select {
	case d.reading <- struct{}{}:
		defer func() { <-d.reading }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if d.isFresh(age) {
		return nil
	}
	began := clock.Mono(d.cfg.Clock)
	rows, err := d.cfg.Rows.Controls(ctx, d.cfg.Kind)
	if err != nil {
		return fmt.Errorf("read rows of kind %s: %w", d.cfg.Kind, err)
	}
	value := d.cfg.Build(ctx, rows)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.value, d.readAt, d.hasRead = value, began, true
	return nil
}

func (d *OnDemand[V]) isFresh(age time.Duration) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.hasRead && clock.Mono(d.cfg.Clock)-d.readAt < age
}

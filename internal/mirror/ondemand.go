package mirror

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
	cfg     Config[V]
	reading chan struct{} // holds a token while one call reads

	mu      sync.Mutex
	value   V
	readAt  time.Duration // monotonic time when the newest read began
	hasRead bool
}

// NewOnDemand returns a copy that was not read yet.
func NewOnDemand[V any](c Config[V]) *OnDemand[V] {
	return &OnDemand[V]{cfg: c, reading: make(chan struct{}, 1)}
}

// Look calls see with a copy that is at most as old as age; nothing else uses the copy meanwhile. While the
// store does not answer it returns an error: an older copy decides nothing.
func (m *OnDemand[V]) Look(ctx context.Context, age time.Duration, see func(known *V)) error {
	if err := m.refresh(ctx, age); err != nil {
		return err
	}
	m.UpdateCopy(see)
	return nil
}

// UpdateCopy calls update with the copy, however old it is. It changes no row.
func (m *OnDemand[V]) UpdateCopy(update func(known *V)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	update(&m.value)
}

// refresh reads the rows unless the copy is not older than age. One call at a time reads.
func (m *OnDemand[V]) refresh(ctx context.Context, age time.Duration) error {
	if m.isFresh(age) {
		return nil
	}
	select {
	case m.reading <- struct{}{}:
		defer func() { <-m.reading }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if m.isFresh(age) {
		return nil
	}
	began := clock.Mono(m.cfg.Clock)
	rows, err := m.cfg.Rows.Controls(ctx, m.cfg.Kind)
	if err != nil {
		return fmt.Errorf("read rows of kind %s: %w", m.cfg.Kind, err)
	}
	value := m.cfg.Build(ctx, rows)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.value, m.readAt, m.hasRead = value, began, true
	return nil
}

func (m *OnDemand[V]) isFresh(age time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hasRead && clock.Mono(m.cfg.Clock)-m.readAt < age
}

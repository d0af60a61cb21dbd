// Package mirror keeps this process's copy of the control rows of a kind: settings that operators change,
// which roles look at for each task. It answers from memory.
package mirror

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
)

// RefreshEvery is how soon a row that another process wrote is known here: so soon that it is in force within
// 2 s.
const RefreshEvery = 1500 * time.Millisecond

// Rows is what a mirror reads.
type Rows interface {
	Controls(ctx context.Context, kind string) ([]store.Control, error)
}

// Config says what a mirror is of.
type Config[V any] struct {
	Kind  string // of the rows
	Rows  Rows
	Clock clock.Clock
	Log   *slog.Logger
	// Build makes the copy of rows, in the order of their names. It skips what it cannot read.
	Build func(ctx context.Context, rows []store.Control) V
}

// Mirror has a copy of all rows of a kind. It is safe for concurrent use. While the store does not answer,
// the rows that were known last stay.
type Mirror[V any] struct {
	cfg Config[V]

	known atomic.Pointer[known[V]]
	reads atomic.Uint64 // numbers the reads of the store

	mu      sync.Mutex // guards what follows, and orders publishing
	newest  uint64     // number of the published read
	changed chan struct{}
}

// known is what one read has found.
type known[V any] struct {
	value  V
	rows   []store.Control
	number uint64 // grows with each change
}

// sameRow compares values too, since versions begin anew: a row that was deleted and put again between two reads
// may have the name and the version of the one before.
func sameRow(a, b store.Control) bool {
	return a.Name == b.Name && a.Version == b.Version && bytes.Equal(a.Value, b.Value)
}

// New returns a mirror of no rows; Refresh or Run fills it.
func New[V any](c Config[V]) *Mirror[V] {
	m := &Mirror[V]{cfg: c, changed: make(chan struct{})}
	m.known.Store(&known[V]{})
	return m
}

// Run refreshes until ctx ends.
func (m *Mirror[V]) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := m.Refresh(ctx); err != nil && ctx.Err() == nil {
			m.cfg.Log.WarnContext(ctx, "cannot refresh settings; those that were known last stay",
				slog.String("kind", m.cfg.Kind), slog.Any("error", err))
		}
		_ = clock.Sleep(ctx, m.cfg.Clock, RefreshEvery)
	}
	return nil
}

// Refresh reads all rows.
func (m *Mirror[V]) Refresh(ctx context.Context) error {
	number := m.reads.Add(1)
	rows, err := m.cfg.Rows.Controls(ctx, m.cfg.Kind)
	if err != nil {
		return fmt.Errorf("read rows of kind %s: %w", m.cfg.Kind, err)
	}
	rows = slices.SortedFunc(slices.Values(rows), func(a, b store.Control) int { return strings.Compare(a.Name, b.Name) })
	m.publish(ctx, rows, number)
	return nil
}

// publish makes rows known, unless a later read is known already, or nothing has changed.
func (m *Mirror[V]) publish(ctx context.Context, rows []store.Control, number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if number < m.newest {
		return
	}
	m.newest = number
	old := m.known.Load()
	if slices.EqualFunc(old.rows, rows, sameRow) {
		return
	}
	m.known.Store(&known[V]{m.cfg.Build(ctx, rows), rows, old.number + 1})
	close(m.changed)
	m.changed = make(chan struct{})
}

// Value returns the copy; the zero value while there are no rows, or none were read.
func (m *Mirror[V]) Value() V { return m.known.Load().value }

// Number grows with each change of the rows.
func (m *Mirror[V]) Number() uint64 { return m.known.Load().number }

// Changed returns a channel that is closed when the rows change.
func (m *Mirror[V]) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

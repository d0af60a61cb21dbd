package control

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

// Rows is what a copy is read from.
type Rows interface {
	Controls(ctx context.Context, kind string) ([]store.Control, error)
}

// CopyConfig says what a Copy or an OnDemand is of.
type CopyConfig[V any] struct {
	Kind  string // of the rows
	Rows  Rows
	Clock clock.Clock
	Log   *slog.Logger
	// Build makes the copy of rows, in the order of their names. It skips what it cannot read.
	Build func(ctx context.Context, rows []store.Control) V
}

// Copy has a copy of all rows of a kind. It is safe for concurrent use. While the store does not answer,
// the rows that were known last stay.
type Copy[V any] struct {
	cfg CopyConfig[V]

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

// NewCopy returns a copy of no rows; Refresh or Run fills it.
func NewCopy[V any](cfg CopyConfig[V]) *Copy[V] {
	c := &Copy[V]{cfg: cfg, changed: make(chan struct{})}
	c.known.Store(&known[V]{})
	return c
}

// CopyOf returns a copy of what build makes of all values of a kind that have not ended, in the order of their names.
// Rows that cannot be read are logged and left out.
func CopyOf[T, V any](k *Kind[T], rows Rows, c clock.Clock, log *slog.Logger, build func(all []*T) V) *Copy[V] {
	return NewCopy(CopyConfig[V]{Kind: k.Live, Rows: rows, Clock: c, Log: log, Build: func(ctx context.Context, rows []store.Control) V {
		all := make([]*T, 0, len(rows))
		for _, row := range rows {
			t, err := k.Decode(row)
			if err != nil {
				log.ErrorContext(ctx, "skipping a row that cannot be read", slog.String("kind", row.Kind), slog.String("name", row.Name), slog.Any("error", err))
				continue
			}
			all = append(all, t)
		}
		return build(all)
	}})
}

// Run refreshes until ctx ends.
func (c *Copy[V]) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := c.Refresh(ctx); err != nil && ctx.Err() == nil {
			c.cfg.Log.WarnContext(ctx, "cannot refresh settings; those that were known last stay",
				slog.String("kind", c.cfg.Kind), slog.Any("error", err))
		}
		_ = clock.Sleep(ctx, c.cfg.Clock, RefreshEvery)
	}
	return nil
}

// Refresh reads all rows.
func (c *Copy[V]) Refresh(ctx context.Context) error {
	number := c.reads.Add(1)
	rows, err := c.cfg.Rows.Controls(ctx, c.cfg.Kind)
	if err != nil {
		return fmt.Errorf("read rows of kind %s: %w", c.cfg.Kind, err)
	}
	rows = slices.SortedFunc(slices.Values(rows), func(a, b store.Control) int { return strings.Compare(a.Name, b.Name) })
	c.publish(ctx, rows, number)
	return nil
}

// publish makes rows known, unless a later read is known already, or nothing has changed.
func (c *Copy[V]) publish(ctx context.Context, rows []store.Control, number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if number < c.newest {
		return
	}
	c.newest = number
	old := c.known.Load()
	if slices.EqualFunc(old.rows, rows, sameRow) {
		return
	}
	c.known.Store(&known[V]{c.cfg.Build(ctx, rows), rows, old.number + 1})
	close(c.changed)
	c.changed = make(chan struct{})
}

// Value returns the copy; the zero value while there are no rows, or none were read.
func (c *Copy[V]) Value() V { return c.known.Load().value }

// Number grows with each change of the rows.
func (c *Copy[V]) Number() uint64 { return c.known.Load().number }

// Changed returns a channel that is closed when the rows change.
func (c *Copy[V]) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

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

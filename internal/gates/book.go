package gates

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Kind is the kind of the control rows of gates that have not ended, KindEnded of those that have.
const (
	Kind      = "gate"
	KindEnded = "gate-ended"
)

// RefreshEvery is how soon a gate that another process set is known here: so soon that it is in force within
// 2 s.
const RefreshEvery = 1500 * time.Millisecond

// Rows is what the book reads.
type Rows interface {
	Controls(ctx context.Context, kind string) ([]store.Control, error)
}

// Book has the gates that are in force. It answers from memory, and is safe for concurrent use. While the
// store does not answer, the gates that were known last stay.
type Book struct {
	rows  Rows
	clock clock.Clock
	log   *slog.Logger

	known atomic.Pointer[known]
	reads atomic.Uint64 // numbers the reads of the store

	mu      sync.Mutex // guards what follows, and orders publishing
	newest  uint64     // number of the published read
	changed chan struct{}
}

// known is what one read has found.
type known struct {
	byLambda map[uint32][]*Gate // oldest first; without those that have ended
	number   uint64             // grows with each change of the gates
}

// NewBook returns a book without gates; Refresh or Run fills it.
func NewBook(rows Rows, c clock.Clock, log *slog.Logger) *Book {
	b := &Book{rows: rows, clock: c, log: log, changed: make(chan struct{})}
	b.known.Store(&known{})
	return b
}

// Run refreshes until ctx ends.
func (b *Book) Run(ctx context.Context) error {
	for {
		if err := b.Refresh(ctx); err != nil && ctx.Err() == nil {
			b.log.WarnContext(ctx, "cannot refresh gates; those that were known last stay", slog.Any("error", err))
		}
		if clock.Sleep(ctx, b.clock, RefreshEvery) != nil {
			return nil
		}
	}
}

// Refresh reads all gates from the store.
func (b *Book) Refresh(ctx context.Context) error {
	number := b.reads.Add(1)
	rows, err := b.rows.Controls(ctx, Kind)
	if err != nil {
		return fmt.Errorf("read gates: %w", err)
	}
	next := &known{byLambda: map[uint32][]*Gate{}}
	for _, row := range rows {
		g, err := Decode(row)
		if err != nil {
			b.log.ErrorContext(ctx, "skipping a gate that cannot be read", slog.String("gate", row.Name), slog.Any("error", err))
			continue
		}
		next.byLambda[g.Ref] = append(next.byLambda[g.Ref], g)
	}
	for _, of := range next.byLambda {
		slices.SortFunc(of, func(a, b *Gate) int { return int(a.Created - b.Created) })
	}
	b.publish(next, number)
	return nil
}

// publish makes next known, unless a later read is known already.
func (b *Book) publish(next *known, number uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if number < b.newest {
		return
	}
	b.newest = number
	old := b.known.Load()
	next.number = old.number
	if sameGates(old, next) {
		return
	}
	next.number++
	b.known.Store(next)
	close(b.changed)
	b.changed = make(chan struct{})
}

func sameGates(a, b *known) bool {
	if len(a.byLambda) != len(b.byLambda) {
		return false
	}
	for ref, of := range a.byLambda {
		if !Gates(of).Equal(b.byLambda[ref]) {
			return false
		}
	}
	return true
}

// Changed returns a channel that is closed when the gates change.
func (b *Book) Changed() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.changed
}

// Number grows with each change of the gates.
func (b *Book) Number() uint64 { return b.known.Load().number }

// Has reports whether any gate is about a lambda, in force or not.
func (b *Book) Has(lambda uint32) bool { return len(b.known.Load().byLambda[lambda]) > 0 }

// Of returns the gate that holds a task back now; nil: none does. Of several that do, one that pauses comes
// before one that drops, and then the oldest: nothing is lost that somebody wants to keep.
func (b *Book) Of(t *task.Task, now task.Instant) (held *Gate) {
	return b.OfLambda(t.Partition.Lambda).Of(t, now)
}

// Decode reads a stored gate.
func Decode(c store.Control) (*Gate, error) {
	g := &Gate{Version: c.Version}
	if err := json.Unmarshal(c.Value, g); err != nil {
		return nil, fmt.Errorf("%w: gate %s: %w", store.ErrCorrupt, c.Name, err)
	}
	return g, nil
}

// Encode returns the control row of a gate, in place of the version that it was read at.
func Encode(kind string, g *Gate) (store.Control, error) {
	value, err := json.Marshal(g)
	if err != nil {
		return store.Control{}, err
	}
	return store.Control{Kind: kind, Name: g.ID, Version: g.Version + 1, Value: value}, nil
}

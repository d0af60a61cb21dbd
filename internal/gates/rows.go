package gates

import (
	"context"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Store is where gates are kept.
type Store = store.ControlRows

// Find reads a gate, whether it has ended or not; store.ErrNotFound if there is none.
func Find(ctx context.Context, s Store, id string) (*Gate, error) {
	for _, kind := range []string{Kind, KindEnded} { // in this order: a gate that is moved meanwhile is found
		if id == "" {
			break
		}
		row, err := s.Control(ctx, kind, id)
		if err == nil {
			return Decode(row)
		}
		if !errors.Is(err, store.ErrNotFound) {
			return nil, fmt.Errorf("read gate %s: %w", id, err)
		}
	}
	return nil, fmt.Errorf("gate %q: %w", id, store.ErrNotFound)
}

// All reads the gates of a kind, and leaves out those that cannot be read.
func All(ctx context.Context, s control.Rows, kind string) ([]*Gate, error) {
	all, _, err := read(ctx, s, kind)
	return all, err
}

// read is All, and returns the highest number too: also of a gate that cannot be read, which a newer version may
// have set.
func read(ctx context.Context, s control.Rows, kind string) (all []*Gate, last int, err error) {
	rows, err := s.Controls(ctx, kind)
	if err != nil {
		return nil, 0, fmt.Errorf("read gates: %w", err)
	}
	all = make([]*Gate, 0, len(rows))
	for _, row := range rows {
		last = max(last, NumberOf(row.Name))
		if g, err := Decode(row); err == nil {
			all = append(all, g)
		}
	}
	return all, last, nil
}

// Put stores a gate in place of the version that it was read at; store.ErrConflict if there is another one.
func Put(ctx context.Context, s Store, kind string, g *Gate) error {
	row, err := Encode(kind, g)
	if err != nil {
		return err
	}
	if err := s.PutControl(ctx, row); err != nil {
		return fmt.Errorf("store gate %s: %w", g.ID, err)
	}
	g.Version = row.Version
	return nil
}

// End ends a gate, which was read from Kind, as of an instant, and moves it to KindEnded. An empty by leaves
// EndedBy as it is. store.ErrConflict says that the gate was changed since it was read. Once the end is
// stored the gate holds nothing, although it may be returned with an error: whoever tidies up moves it then.
func End(ctx context.Context, s Store, g *Gate, at task.Instant, by string) error {
	if g.Ended.IsZero() {
		ended := *g
		if ended.Ended = at; by != "" {
			ended.EndedBy = by
		}
		if err := Put(ctx, s, Kind, &ended); err != nil {
			return err
		}
		*g = ended
	}
	moved := *g
	moved.Version = 0
	if err := Put(ctx, s, KindEnded, &moved); err != nil && !errors.Is(err, store.ErrConflict) {
		return err
	}
	err := s.DeleteControl(ctx, store.Control{Kind: Kind, Name: g.ID, Version: g.Version})
	if err != nil && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("delete the row of gate %s, which has ended: %w", g.ID, err)
	}
	return nil
}

package cron

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Kind is the kind of the control rows of crons. KindTodo is that of crons whose first occurrence may not be
// put yet, or whose pause ends by itself.
const (
	Kind     = "cron"
	KindTodo = "cron-todo"
)

// Store is where crons are kept.
type Store interface {
	store.ControlRows
	store.Writer
	Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error)
	Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error)
}

// Find reads a cron; store.ErrNotFound if there is none.
func Find(ctx context.Context, s Store, name string) (*Cron, error) {
	row, err := s.Control(ctx, Kind, name)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, fmt.Errorf("cron %q: %w", name, store.ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("read cron %s: %w", name, err)
	}
	return decode(row)
}

func decode(row store.Control) (*Cron, error) {
	c := &Cron{Version: row.Version}
	if err := json.Unmarshal(row.Value, c); err != nil {
		return nil, fmt.Errorf("%w: cron %s: %w", store.ErrCorrupt, row.Name, err)
	}
	if len(c.Revisions) == 0 {
		return nil, fmt.Errorf("%w: cron %s has no revision", store.ErrCorrupt, row.Name)
	}
	return c, nil
}

// All reads all crons in the order of their names, and leaves out those that cannot be read.
func All(ctx context.Context, s Store) ([]*Cron, error) {
	rows, err := s.Controls(ctx, Kind)
	if err != nil {
		return nil, fmt.Errorf("read crons: %w", err)
	}
	all := make([]*Cron, 0, len(rows))
	for _, row := range rows {
		if c, err := decode(row); err == nil {
			all = append(all, c)
		}
	}
	return all, nil
}

// Put stores a cron in place of the version that it was read at; store.ErrConflict if there is another one.
func Put(ctx context.Context, s Store, c *Cron) error {
	value, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode cron %s: %w", c.Name, err)
	}
	row := store.Control{Kind: Kind, Name: c.Name, Version: c.Version + 1, Value: value}
	if err := s.PutControl(ctx, row); err != nil {
		return fmt.Errorf("store cron %s: %w", c.Name, err)
	}
	c.Version = row.Version
	return nil
}

// Delete deletes a cron as it was read; its occurrences are skipped from now on. store.ErrConflict says that
// it was changed meanwhile.
func Delete(ctx context.Context, s Store, c *Cron) error {
	if err := s.DeleteControl(ctx, store.Control{Kind: Kind, Name: c.Name, Version: c.Version}); err != nil {
		return fmt.Errorf("delete cron %s: %w", c.Name, err)
	}
	return nil
}

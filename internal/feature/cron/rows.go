package cron

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
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

// NewBook returns the crons of a store.
func NewBook(rows store.ControlRows, c clock.Clock) *control.Book[Cron] {
	return control.NewBook(rows, control.Kind[Cron]{
		Live: Kind, What: "cron", Name: func(c *Cron) string { return c.Name },
		Read: func(_ string, value []byte, c *Cron) error {
			err := json.Unmarshal(value, c)
			if err == nil && len(c.Revisions) == 0 {
				err = errors.New("it has no revision")
			}
			return err
		},
	}, c)
}

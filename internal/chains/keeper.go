package chains

import (
	"context"
	"log/slog"
	"sync"

	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Config is what a Keeper is made of.
type Config struct {
	Store *store.Store
	// Lambda returns a lambda; nil if there is none, or it is being deleted.
	Lambda func(ctx context.Context, ref uint32) (*task.Lambda, error)
	// Take has a follow-up become the task of its key by the rules of keys, or returns the task that holds
	// it.
	Take func(ctx context.Context, t task.Task, with *intake.Keyed) (holder *task.Task, err error)
	// Added tells the scheduler of a task that waits as a wake-up row.
	Added func(t *task.Task)
	// Starter starts follow-ups that are due. nil: the scheduler does.
	Starter *dispatcher.Starter
	Clock   clock.Clock
	Log     *slog.Logger
}

// Keeper is a store that puts the follow-ups of each task which a write ends. It is safe for concurrent use.
type Keeper struct {
	*store.Store

	Config

	calls sync.Pool // of *call, to be used again

	mu      sync.Mutex // guards pending
	pending map[task.ID]struct{}
}

// New returns a Keeper.
func New(c Config) *Keeper {
	return &Keeper{Store: c.Store, Config: c, pending: map[task.ID]struct{}{}}
}

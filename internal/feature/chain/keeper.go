package chain

import (
	"context"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"

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
	// Added tells the scheduler of a task that waits as a wake-up row.
	Added func(t *task.Task)
	// Starter starts follow-ups that are due. nil: the scheduler does.
	Starter *dispatcher.Starter
	Clock   clock.Clock
	Log     *slog.Logger
	// Rested is called when Rests becomes true. It may be nil.
	Rested func()
}

// Keeper is a store that puts the follow-ups of each task which a write ends. It is safe for concurrent use.
type Keeper struct {
	*store.Store

	Config
	*common

	// takeKey has a follow-up take its key. nil: follow-ups with keys wait for a Keeper that has it.
	takeKey intake.Taker
}

// common is what a Keeper that takes no keys has in common with those that do.
type common struct {
	calls  sync.Pool    // of *call, to be used again
	behind atomic.Int64 // calls that put follow-ups after the end of their parent

	mu      sync.Mutex // guards pending
	pending map[task.ID]struct{}
}

// New returns a Keeper that takes no keys. The intake writes through it, by whose rules keys are taken.
func New(c Config) *Keeper {
	return &Keeper{Store: c.Store, Config: c, common: &common{pending: map[task.ID]struct{}{}}}
}

// Taking returns the Keeper whose follow-ups with keys take them.
func (k *Keeper) Taking(take intake.Taker) *Keeper {
	taking := *k
	taking.takeKey = take
	return &taking
}

// Rests reports whether no call that has ended a task is still to put the task's follow-ups. Such a call waits for no time,
// so until is never.
func (k *Keeper) Rests() (until task.Instant, ok bool) { return math.MaxInt64, k.behind.Load() == 0 }

// noteBehind notes a call that puts follow-ups after the end of their parent, of which Rests tells until done is called.
func (k *Keeper) noteBehind() (done func()) {
	k.behind.Add(1)
	return func() {
		if k.behind.Add(-1) == 0 && k.Rested != nil {
			k.Rested()
		}
	}
}

// Package chain has what follows a task created together with its end. A Keeper stands before the store:
// every write that ends a task goes through its Apply, which adds the first rows of the follow-ups, and
// every deletion of a leftover row, which may be all that is left of an end that was not completed. So no
// role can end a task without its follow-ups, and none is lost or created twice, whatever dies in between.
// A Service shows chains, and cancels, pauses, resumes, extends and redrives them. The package decides nothing
// about tasks and checks no rights.
package chain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
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

// putsMax bounds the follow-ups that are put in one call.
const putsMax = 500

// put stores the follow-ups of a task that has ended, each if it is absent, and tells the scheduler. again
// says that some may have been put before.
func (k *Keeper) put(ctx context.Context, ended *task.Task, all []*followup, again bool) error {
	if i := slices.IndexFunc(all, isKeyed); i >= 0 {
		if err := k.takeAll(ctx, ended, all[i:], again); err != nil {
			return err
		}
		all = slices.DeleteFunc(slices.Clone(all), isKeyed)
	}
	for len(all) > 0 {
		part := all[:min(len(all), putsMax)]
		all = all[len(part):]
		var payloads, rows []store.Op
		for i := range part {
			payloads = append(payloads, part[i].payloads...)
			rows = append(rows, store.Op{Kind: store.PutWakeup, Task: part[i].task})
		}
		for _, ops := range [][]store.Op{payloads, rows} {
			if err := k.putAbsent(ctx, ops); err != nil {
				return err
			}
		}
		k.tell(part)
	}
	return nil
}

// putAbsent makes writes of which each may have been made before.
func (k *Keeper) putAbsent(ctx context.Context, ops []store.Op) error {
	if len(ops) == 0 {
		return nil
	}
	outcomes, err := k.Store.Apply(ctx, ops)
	for _, outcome := range outcomes {
		if outcome != nil && !errors.Is(outcome, store.ErrConflict) {
			return fmt.Errorf("put a follow-up: %w", outcome)
		}
	}
	return err
}

func (k *Keeper) tell(all []*followup) {
	if k.Added == nil {
		return
	}
	for i := range all {
		k.Added(&all[i].task)
	}
}

// Payloads reads payload rows.
type Payloads interface {
	Payload(ctx context.Context, id task.ID) ([]byte, error)
	PayloadInlineMax() int
	PayloadsExpire() bool
}

// encodedOf returns what follows a task, encoded.
func encodedOf(ctx context.Context, s Payloads, t *task.Task) ([]byte, error) {
	switch {
	case !t.HasFollowups():
		return nil, nil
	case !t.Chain.FollowApart():
		return t.Chain.Follow, nil
	}
	b, err := s.Payload(ctx, t.Chain.FollowID)
	if err != nil {
		return nil, fmt.Errorf("read what follows task %s: %w", t.ID, err)
	}
	return b, nil
}

func read(ctx context.Context, s Payloads, t *task.Task) (*kinesinv1.Followups, error) {
	b, err := encodedOf(ctx, s, t)
	if err != nil {
		return nil, err
	}
	return decode(b)
}

// Read returns what follows a task.
func (k *Keeper) Read(ctx context.Context, t *task.Task) (*kinesinv1.Followups, error) {
	return read(ctx, k.Store, t)
}

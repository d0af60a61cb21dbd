package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
)

// ErrAway is the error of every call to a store that is away.
var ErrAway = errors.New("the store is away")

// Away is a driver whose reads or writes can be away: then they fail, and nothing is applied.
type Away struct {
	reads

	readsAway, writesAway atomic.Bool
	takes                 atomic.Int64 // nanoseconds
	calls                 atomic.Int64
}

// NewAway wraps a driver, which is not away until Set is called.
func NewAway(d store.Driver) *Away {
	a := &Away{}
	a.reads = reads{d, func(ctx context.Context, _ bool) error { return a.call(ctx, "read", &a.readsAway) }}
	return a
}

// Set takes reads and writes away, or brings them back.
func (a *Away) Set(reads, writes bool) {
	a.readsAway.Store(reads)
	a.writesAway.Store(writes)
}

// Takes sets how long a call takes to fail; at first it fails at once.
func (a *Away) Takes(d time.Duration) { a.takes.Store(int64(d)) }

// Calls returns the number of calls that failed.
func (a *Away) Calls() int64 { return a.calls.Load() }

func (a *Away) call(ctx context.Context, what string, away *atomic.Bool) error {
	if !away.Load() {
		return nil
	}
	a.calls.Add(1)
	if err := clock.Sleep(ctx, clock.Real(), time.Duration(a.takes.Load())); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w", what, ErrAway)
}

// Apply implements store.Driver.
func (a *Away) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	if err := a.call(ctx, "write", &a.writesAway); err != nil {
		return nil, err
	}
	return a.Driver.Apply(ctx, ops)
}

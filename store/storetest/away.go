package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// ErrAway is the error of every call to a store that is away.
var ErrAway = errors.New("the store is away")

// Away is a driver that can be away: then no call of its reads, or of its writes, comes through, and nothing
// is applied.
type Away struct {
	store.Driver

	reads, writes atomic.Bool
	takes         atomic.Int64 // nanoseconds
	calls         atomic.Int64
}

// NewAway wraps a driver, which is there until Set is called.
func NewAway(d store.Driver) *Away { return &Away{Driver: d} }

// Set takes reads and writes away, or brings them back.
func (a *Away) Set(reads, writes bool) {
	a.reads.Store(reads)
	a.writes.Store(writes)
}

// Takes sets how long a call takes to fail while it is away: nothing at first.
func (a *Away) Takes(d time.Duration) { a.takes.Store(int64(d)) }

// Calls is how many calls came while it was away.
func (a *Away) Calls() int64 { return a.calls.Load() }

func (a *Away) read(ctx context.Context) error { return a.call(ctx, "read", &a.reads) }

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
	if err := a.call(ctx, "write", &a.writes); err != nil {
		return nil, err
	}
	return a.Driver.Apply(ctx, ops)
}

// Tasks implements store.Driver.
func (a *Away) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	if err := a.read(ctx); err != nil {
		return nil, err
	}
	return a.Driver.Tasks(ctx, ids)
}

// Wakeups implements store.Driver.
func (a *Away) Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error) {
	if err := a.read(ctx); err != nil {
		return nil, err
	}
	return a.Driver.Wakeups(ctx, keys)
}

// Payload implements store.Driver.
func (a *Away) Payload(ctx context.Context, id task.ID) ([]byte, error) {
	if err := a.read(ctx); err != nil {
		return nil, err
	}
	return a.Driver.Payload(ctx, id)
}

// ScanSchedule implements store.Driver.
func (a *Away) ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	if err := a.read(ctx); err != nil {
		return nil, err
	}
	return a.Driver.ScanSchedule(ctx, p, after, through, limit)
}

// Controls implements store.Driver.
func (a *Away) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	if err := a.read(ctx); err != nil {
		return nil, err
	}
	return a.Driver.Controls(ctx, kind, name)
}

package storetest

import (
	"context"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// reads is a driver that calls before before each read. An error from it is the answer of the read.
type reads struct {
	store.Driver

	before func(ctx context.Context, isScan bool) error
}

func guarded[T any](ctx context.Context, r *reads, isScan bool, read func() (T, error)) (T, error) {
	if err := r.before(ctx, isScan); err != nil {
		var none T
		return none, err
	}
	return read()
}

// Tasks implements store.Driver.
func (r *reads) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	return guarded(ctx, r, false, func() ([]task.Task, error) { return r.Driver.Tasks(ctx, ids) })
}

// Wakeups implements store.Driver.
func (r *reads) Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error) {
	return guarded(ctx, r, false, func() ([]task.Task, error) { return r.Driver.Wakeups(ctx, keys) })
}

// Payload implements store.Driver.
func (r *reads) Payload(ctx context.Context, id task.ID) ([]byte, error) {
	return guarded(ctx, r, false, func() ([]byte, error) { return r.Driver.Payload(ctx, id) })
}

// Controls implements store.Driver.
func (r *reads) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	return guarded(ctx, r, false, func() ([]store.Control, error) { return r.Driver.Controls(ctx, kind, name) })
}

// ScanSchedule implements store.Driver.
func (r *reads) ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	return guarded(ctx, r, true, func() ([]task.Task, error) { return r.Driver.ScanSchedule(ctx, p, after, through, limit) })
}

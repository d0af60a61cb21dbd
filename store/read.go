package store

import (
	"context"
	"fmt"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Tasks reads task rows, strongly consistent; a missing row has a zero ID in its place. A row that cannot be
// read has an ID and no state; if it alone was asked for, it is an error for which IsUnreadable holds.
func (s *Store) Tasks(ctx context.Context, ids []task.ID) (rows []task.Task, err error) {
	defer s.observe(ctx, "tasks", len(ids), clock.Steady(s.cfg.Clock), &err)
	return inParts(ctx, ids, s.d.Tasks)
}

// Task reads one task row, strongly consistent; ErrNotFound when there is none.
func (s *Store) Task(ctx context.Context, id task.ID) (task.Task, error) {
	rows, err := s.Tasks(ctx, []task.ID{id})
	if err != nil {
		return task.Task{}, err
	}
	if rows[0].ID.IsZero() {
		return task.Task{}, fmt.Errorf("task %s: %w", id, ErrNotFound)
	}
	return rows[0], nil
}

// Wakeups reads wake-up rows, strongly consistent; a missing row has a zero ID in its place. A key that lacks
// a part is ErrMalformed: no row has it, so that each of its tasks would look gone.
func (s *Store) Wakeups(ctx context.Context, keys []WakeKey) (rows []task.Task, err error) {
	defer s.observe(ctx, "wakeups", len(keys), clock.Steady(s.cfg.Clock), &err)
	for _, k := range keys {
		if err := k.check(); err != nil {
			return nil, err
		}
	}
	return inParts(ctx, keys, s.d.Wakeups)
}

func inParts[K any](ctx context.Context, keys []K, read func(context.Context, []K) ([]task.Task, error)) ([]task.Task, error) {
	if len(keys) <= ReadMax {
		return read(ctx, keys)
	}
	rows := make([]task.Task, 0, len(keys))
	for len(keys) > 0 {
		n := min(len(keys), ReadMax)
		if len(keys) == n+1 {
			n-- // a row that is read alone and cannot be read would fail all
		}
		found, err := read(ctx, keys[:n])
		if err != nil {
			return nil, err
		}
		rows, keys = append(rows, found...), keys[n:]
	}
	return rows, nil
}

// Payload reads a payload row; ErrNotFound when there is none.
func (s *Store) Payload(ctx context.Context, id task.ID) (payload []byte, err error) {
	defer s.observe(ctx, "payload", 1, clock.Steady(s.cfg.Clock), &err)
	return s.d.Payload(ctx, id)
}

// ScanSchedule returns the first limit wake-up rows of a partition in order of (wake, id), strongly
// consistent, after the given key (zero: from the head) and with a wake at or before through. limit is at
// most ScanMax.
func (s *Store) ScanSchedule(ctx context.Context, p task.Partition, after WakeKey, through task.Instant, limit int) (rows []task.Task, err error) {
	defer s.observe(ctx, "scan_schedule", limit, clock.Steady(s.cfg.Clock), &err)
	if err := checkLimit(limit); err != nil {
		return nil, err
	}
	return s.d.ScanSchedule(ctx, p, after, through, limit)
}

// ScanEnded pages over ended rows; see Driver.ScanEnded. limit is at most ScanMax.
func (s *Store) ScanEnded(ctx context.Context, p *task.Partition, state task.State, cursor []byte, limit int) (rows []task.Task, next []byte, err error) {
	defer s.observe(ctx, "scan_ended", limit, clock.Steady(s.cfg.Clock), &err)
	if err := checkLimit(limit); err != nil {
		return nil, nil, err
	}
	if state != task.Unknown && !state.IsEnd() {
		return nil, nil, fmt.Errorf("%w scan: %s is not an end", ErrMalformed, state)
	}
	return s.d.ScanEnded(ctx, p, state, cursor, limit)
}

package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Where ended rows expire by themselves, the wake-up row of an ended task may outlive its task row while no
// scheduler runs: it then looks like the row of a task that was never dispatched. A record in the store says
// when schedulers ran. A row that may be of such a task is stale: it is set aside for a person to decide, and
// not dispatched. docs/internals/protocol.md has the rule as 4d.

// isStale reports whether a row must not be dispatched, by the gap that lasts until now or by an earlier one.
func (s *shared) isStale(row *task.Task, now task.Instant) bool {
	if s.Downtime == nil {
		return false
	}
	retention, known := s.Downtime.Retention(row.Partition.Lambda)
	record := s.activity.Load()
	stale := func(g gap) bool { return g.isStale(row, retention) }
	return known && (!record.At.IsZero() && stale(gap{record.At, now}) || slices.ContainsFunc(record.Gaps, stale))
}

// setAside sets stale rows aside. It returns those that may be removed; the next full scan finds the others.
func (s *shared) setAside(ctx context.Context, p task.Partition, rows []task.Task) (kept []task.Task) {
	within, done := withWriteTimeout(ctx, s.Clock)
	defer done()
	n, err := s.Downtime.Aside.SetAside(within, rows)
	if err != nil {
		s.partitionFailed(ctx, p, fmt.Errorf("set aside tasks that may have run: %w", err))
	}
	return rows[:n]
}

// readActivity reads the record before anything is dispatched.
func (s *shared) readActivity(ctx context.Context, p *progress) error {
	for failures := 1; ; failures++ {
		p.mark(s.Clock)
		record, _, err := s.storedActivity(ctx)
		if err == nil {
			record.stored = record.At
			s.activity.Store(&record)
			return ctx.Err()
		}
		s.activityFailed(ctx, err)
		if err := retries.Sleep(ctx, s.Clock, failures); err != nil {
			return err
		}
	}
}

// recordActivity renews the record until ctx ends.
func (s *shared) recordActivity(ctx context.Context) {
	for wait := recordFirst; clock.Sleep(ctx, s.Clock, wait) == nil; {
		wait = recordEvery
		if err := s.renewActivity(ctx); err != nil {
			s.activityFailed(ctx, err)
			wait = recordRetry
		}
	}
}

// renewActivity records that a scheduler runs now, and the gaps that are known here. Full scans of all that
// lies behind the last gap are made before the next renewal.
func (s *shared) renewActivity(ctx context.Context) error {
	ctx, done := withWriteTimeout(ctx, s.Clock)
	defer done()
	record, version, err := s.storedActivity(ctx)
	if err != nil {
		return err
	}
	now, known := s.Clock.Now(), s.activity.Load()
	if record.At == known.stored {
		record.At = known.At
	}
	for _, g := range append(slices.Clone(known.Gaps), gap{known.At, now.Add(recordEvery)}, gap{record.At, now.Add(recordEvery)}) {
		record.add(g)
	}
	record.At, record.stored = now, now
	value, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("encode the record of activity: %w", err)
	}
	err = s.Downtime.Rows.PutControl(ctx, store.Control{Kind: activityKind, Name: activityName, Version: version + 1, Value: value})
	if err != nil && !errors.Is(err, store.ErrConflict) { // else another process did just this
		return err
	}
	s.activity.Store(&record)
	return nil
}

// storedActivity reads the record and its version; 0 when there is none.
func (s *shared) storedActivity(ctx context.Context) (record activityRecord, version uint64, err error) {
	row, err := s.Downtime.Rows.Control(ctx, activityKind, activityName)
	if errors.Is(err, store.ErrNotFound) {
		return activityRecord{}, 0, nil
	}
	if err == nil {
		err = json.Unmarshal(row.Value, &record)
	}
	return record, row.Version, err
}

func (s *shared) activityFailed(ctx context.Context, err error) {
	s.warn(ctx, "record of scheduler activity not read or written, trying again", err)
}

// shiftActivity follows a step of the wall clock. Otherwise a step forward would look as if no scheduler had
// run meanwhile.
func (s *shared) shiftActivity(by time.Duration) {
	for known := s.activity.Load(); !known.At.IsZero(); known = s.activity.Load() {
		next := *known
		next.At = next.At.Add(by)
		if s.activity.CompareAndSwap(known, &next) {
			return
		}
	}
}

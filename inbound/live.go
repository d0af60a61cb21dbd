package inbound

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/where"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// depthsWithin bounds how long the queues of a lambda are asked for their depths. A queue that has not
// answered by then has no known depth.
const depthsWithin = 2 * time.Second

// busyAfter is how long a task waits in its queue before workers count as busy: far longer than a free one
// takes to start it.
const busyAfter = time.Second

// Live returns the live figures of a lambda: its statistics, its queues and its workers. nil: the caller may
// not read the whole lambda. With count the states of its tasks are told also where the store does not count
// them, and how many tasks may start now; both take reading tasks.
func (in *Inbound) Live(ctx context.Context, l *catalog.Entry, count bool) (s *kinesinv1.LambdaStats, err error) {
	by := access.From(ctx).Grants
	if !by.Allow(access.Read, l.Name) {
		return nil, nil //nolint:nilnil // documented
	}
	if s, err = in.liveStats(ctx, l, by, count); err != nil {
		return nil, err
	}
	s.Priorities = in.priorityStats(ctx, l)
	if l.Mode == task.Managed && in.CountWorkers != nil {
		in.addWorkers(ctx, l, s)
	}
	if s.GetWorkers() > 0 {
		s.HeldBy = append(s.HeldBy, heldByBusyWorkers(s)...)
	}
	if count {
		if err := in.addDue(ctx, l, by, s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (in *Inbound) liveStats(ctx context.Context, l *catalog.Entry, by access.Grants, count bool) (*kinesinv1.LambdaStats, error) {
	leave, err := in.enterWholeSet(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if count {
		return in.statsOf(ctx, l, by)
	}
	return in.cheapStatsOf(ctx, l)
}

// addWorkers adds how many workers a lambda has, and that it lacks them. While the leases cannot be read
// neither is known.
func (in *Inbound) addWorkers(ctx context.Context, l *catalog.Entry, s *kinesinv1.LambdaStats) {
	n, err := in.CountWorkers(ctx, l.Name)
	if err != nil {
		return
	}
	workers := int64(n)
	s.Workers = &workers
	for _, h := range s.HeldBy {
		if h.Reason == waitsForWorker {
			return
		}
	}
	if n == 0 && s.OldestDue != 0 {
		s.HeldBy = append(s.HeldBy, noWorker(l))
	}
}

// heldByBusyWorkers returns the priorities whose tasks wait in their queues for workers, although there are
// some.
func heldByBusyWorkers(s *kinesinv1.LambdaStats) (all []*kinesinv1.HeldBy) {
	for _, p := range s.Priorities {
		oldest := task.Micros(p.Oldest)
		if p.GetQueued() > 0 && oldest >= busyAfter {
			all = append(all, &kinesinv1.HeldBy{
				Reason: waitsForSlot, Priority: p.Priority,
				Text: fmt.Sprintf("its workers are busy: about %d tasks of priority %s wait in the queue for a free slot, the oldest for %v",
					p.GetQueued(), p.Priority, oldest.Round(time.Millisecond)),
			})
		}
	}
	return all
}

// addDue adds how many tasks may start now and have not.
func (in *Inbound) addDue(ctx context.Context, l *catalog.Entry, by access.Grants, s *kinesinv1.LambdaStats) error {
	now := in.Clock.Now()
	due, _, exact, err := in.CountDue(ctx, Selection{Filter: &where.Filter{}, By: by, Lambda: l}, now, now)
	if err != nil {
		return err
	}
	s.Due, s.DueExact = &due, exact
	return nil
}

// priorityStats asks the queues of a lambda at once.
func (in *Inbound) priorityStats(ctx context.Context, l *catalog.Entry) []*kinesinv1.PriorityStats {
	var rates Rates
	if in.Rates != nil {
		rates = in.Rates(l.Ref)
	}
	ctx, cancel := clock.Within(ctx, in.Clock, depthsWithin)
	defer cancel()
	all := make([]*kinesinv1.PriorityStats, len(l.Priorities))
	var asking errgroup.Group
	for class, priority := range l.Priorities {
		p := &kinesinv1.PriorityStats{Priority: priority, StartedPerSecond: rates.Priorities[class].Started}
		all[class] = p
		asking.Go(func() error {
			depth, err := in.Queue.Depth(ctx, queue.Name{Lambda: l.Ref, Priority: uint8(class)})
			if err == nil {
				queued := int64(depth.Visible)
				p.Queued, p.InFlight, p.Oldest = &queued, int64(depth.InFlight), depth.Oldest.Microseconds()
			}
			return nil // it is not known
		})
	}
	_ = asking.Wait()
	return all
}

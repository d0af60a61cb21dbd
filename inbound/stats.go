package inbound

import (
	"context"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/internal/where"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// oldestRowsRead is how many rows of each partition are looked at for the oldest task that has not started.
const oldestRowsRead = 100

// Stats returns live counts and rates of one lambda, or of all that the caller may read whole.
func (in *Inbound) Stats(ctx context.Context, r *kinesinv1.StatsRequest) (*kinesinv1.StatsResponse, error) {
	leave, err := in.enterWholeSet(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	lambdas := in.Catalog.All()
	if r.Lambda != "" {
		l, err := in.Catalog.Find(ctx, r.Lambda)
		if err != nil {
			return nil, refusal.Wire(err)
		}
		lambdas = []*catalog.Entry{l}
	}
	response := &kinesinv1.StatsResponse{}
	by := access.From(ctx).Grants
	for _, l := range lambdas {
		if !by.Allow(access.Read, l.Name) {
			continue
		}
		s, err := in.statsOf(ctx, l, by)
		if err != nil {
			return nil, refusal.Wire(err)
		}
		response.Lambdas = append(response.Lambdas, s)
	}
	return response, nil
}

func (in *Inbound) statsOf(ctx context.Context, l *catalog.Entry, by access.Grants) (s *kinesinv1.LambdaStats, err error) {
	if s, err = in.cheapStatsOf(ctx, l); err != nil || s.Exact {
		return s, err
	}
	if err = in.sampleStates(ctx, l, by, s); err != nil {
		return nil, err
	}
	return s, nil
}

// cheapStatsOf returns the statistics of a lambda without the states of its tasks, unless the store counts
// these by itself.
func (in *Inbound) cheapStatsOf(ctx context.Context, l *catalog.Entry) (s *kinesinv1.LambdaStats, err error) {
	s = &kinesinv1.LambdaStats{Lambda: l.Name, Tasks: map[string]int64{}}
	if in.Rates != nil {
		rates := in.Rates(l.Ref)
		s.StartedPerSecond, s.EndedPerSecond, s.FailedPerSecond = rates.Started, rates.Ended, rates.Failed
		s.ThrottledPerSecond = rates.Throttled
		s.LatenessP50, s.LatenessP99 = rates.Lateness50.Microseconds(), rates.Lateness99.Microseconds()
	}
	if in.Deaths != nil {
		s.DeadHour, s.DeadDay = in.Deaths(ctx, l.Ref)
	}
	var oldest task.Instant
	if oldest, err = in.oldestDue(ctx, l); err != nil {
		return nil, err
	}
	s.OldestDue = int64(oldest)
	s.HeldBy = in.heldBy(l, !oldest.IsZero())
	depths, ready := in.Store.Depths()
	if !ready {
		return s, nil
	}
	s.Exact = true
	for _, p := range l.Partitions() {
		depth := depths[p]
		for _, state := range liveStates() {
			if n := depth[state]; n > 0 {
				s.Tasks[state.String()] += n
			}
		}
	}
	return s, nil
}

// sampleStates estimates the live tasks of a lambda by state.
func (in *Inbound) sampleStates(ctx context.Context, l *catalog.Entry, by access.Grants, s *kinesinv1.LambdaStats) error {
	of := &Selection{Filter: &where.Filter{}, By: by, Lambda: l, Live: true, oneShard: true}
	examined := 0
	var position []byte
	for more := true; more && examined < estimateRowsMax; {
		page, err := in.Page(ctx, of, position, setRowsPage)
		if err != nil {
			return err
		}
		for i := range page.Rows {
			s.Tasks[page.Rows[i].State.String()] += in.weight(&page.Rows[i].Task)
		}
		examined += page.Examined
		position, more = page.Next, len(page.Next) > 0
	}
	return nil
}

// oldestDue returns when the task of a lambda was due that has waited longest for its first start; 0 if none
// waits. It looks at the first rows of each partition.
func (in *Inbound) oldestDue(ctx context.Context, l *catalog.Entry) (oldest task.Instant, err error) {
	now := in.Clock.Now()
	for _, p := range l.Partitions() {
		wakeups, err := in.Store.ScanSchedule(ctx, p, store.WakeKey{}, now, oldestRowsRead)
		if err != nil {
			return 0, err
		}
		all, err := in.tasksBehind(ctx, wakeups)
		if err != nil {
			return 0, err
		}
		for i := range all {
			b := &all[i]
			waits := b.isTask() && b.FirstStarted.IsZero() && !b.State.IsRunning() && b.Due <= now
			if waits && (oldest.IsZero() || b.Due < oldest) {
				oldest = b.Due
			}
		}
	}
	return oldest, nil
}

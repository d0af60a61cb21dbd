package job

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/task"
)

// Run runs jobs until ctx ends: those that are made here, and those that no living server runs.
func (s *Service) Run(ctx context.Context) error {
	defer s.leave(context.WithoutCancel(ctx))
	return s.running.Run(ctx)
}

// takeUp looks at all jobs that have not ended, and starts those that nobody runs.
func (s *Service) takeUp(ctx context.Context) error {
	jobs, err := s.jobs.All(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(jobs, func(a, b *job) int { return cmp.Compare(a.Created, b.Created) })
	var errs []error
	running := s.running.Kept()
	for _, j := range jobs {
		switch {
		case running[j.ID] != nil:
			if j.State != stateRunning || j.Owner != s.process {
				s.running.Keep(j.ID, *j, 0, struct{}{})
			}
		case j.hasEnded():
			errs = append(errs, s.bury(ctx, j))
		case j.State == stateRunning && len(running) < RunningMax && s.isFree(j):
			if j.Owner, j.Until = s.process, s.Clock.Now().Add(leaseFor); s.jobs.Put(ctx, j) == nil { // else another server was faster
				s.running.Keep(j.ID, *j, 0)
				running[j.ID] = j
			}
		}
	}
	now := clock.Steady(s.Clock)
	if err := errors.Join(errs...); err != nil || !s.tidied.IsZero() && now < s.tidied.Add(tidyEvery) {
		return err
	}
	s.tidied = now
	return s.tidy(ctx)
}

// isFree reports whether no living server runs a job.
func (s *Service) isFree(j *job) bool {
	return j.Owner == "" || j.Owner == s.process || !s.Shared || s.Clock.Now() >= j.Until.Add(task.ClockBound)
}

// bury moves a job that has ended out of the way of those that have not.
func (s *Service) bury(ctx context.Context, j *job) error {
	if err := s.forgetPlan(ctx, j); err != nil {
		return err
	}
	ended := *j
	ended.Position, ended.Plan, ended.Owner, ended.Until = nil, nil, "", 0
	first, err := s.jobs.Bury(ctx, &ended)
	if first && s.Ended != nil {
		s.Ended(ctx, ended.wire())
	}
	return err
}

// tidy deletes jobs that ended long ago, and the oldest if there are too many.
func (s *Service) tidy(ctx context.Context) error {
	return s.jobs.Forget(ctx, control.Forget[job]{
		Until: func(j *job) task.Instant { return j.Ended.Add(KeptFor) }, Max: KeptMax,
		First: func(ctx context.Context, j *job) error {
			if r, err := s.refusals.Find(ctx, j.ID); err == nil {
				_ = s.refusals.Delete(ctx, r) // if it fails, an unused row stays
			}
			return nil
		},
	})
}

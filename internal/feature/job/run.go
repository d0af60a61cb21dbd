package job

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/task"
)

// Run runs jobs until ctx ends: those that are made here, and those that no living server runs.
func (s *Service) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		failures, tidied := 0, time.Duration(0)
		for ctx.Err() == nil {
			err := s.takeUp(ctx, group)
			if now := clock.Mono(s.Clock); err == nil && (tidied == 0 || now-tidied >= tidyEvery) {
				tidied, err = now, s.tidy(ctx)
			}
			if failures++; err == nil {
				failures = 0
			} else if ctx.Err() == nil {
				s.Log.WarnContext(ctx, "cannot look for jobs", slog.Any("error", err))
			}
			s.nap(ctx, s.wake, lookEvery+stepRetry.Pause(s.Clock, failures))
		}
		return nil
	})
	return group.Wait()
}

// takeUp looks at all jobs that have not ended, and starts those that nobody runs.
func (s *Service) takeUp(ctx context.Context, group *errgroup.Group) error {
	jobs, err := s.jobs.All(ctx)
	if err != nil {
		return err
	}
	slices.SortFunc(jobs, func(a, b *job) int { return cmp.Compare(a.Created, b.Created) })
	var errs []error
	for _, j := range jobs {
		changed, count := s.runs(j)
		switch {
		case changed != nil:
			if j.State != stateRunning || j.Owner != s.process {
				s.setNap(changed, 0)
				select {
				case changed <- struct{}{}:
				default:
				}
			}
		case j.hasEnded():
			errs = append(errs, s.bury(ctx, j))
		case j.State == stateRunning && count < RunningMax && s.isFree(j):
			s.start(ctx, group, j)
		}
	}
	return errors.Join(errs...)
}

// runs returns the channel of a job that runs here, nil if it does not, and how many jobs do.
func (s *Service) runs(j *job) (changed chan struct{}, count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[j.ID], len(s.running)
}

// isFree reports whether no living server runs a job.
func (s *Service) isFree(j *job) bool {
	return j.Owner == "" || j.Owner == s.process || !s.Shared || s.Clock.Now() >= j.Until.Add(task.ClockBound)
}

// start takes the lease of a job and runs it, unless another server was faster.
func (s *Service) start(ctx context.Context, group *errgroup.Group, j *job) {
	j.Owner, j.Until = s.process, s.Clock.Now().Add(leaseFor)
	if s.jobs.Put(ctx, j) != nil {
		return
	}
	changed := make(chan struct{}, 1)
	s.mu.Lock()
	s.running[j.ID] = changed
	s.mu.Unlock()
	group.Go(func() error {
		s.work(ctx, j, changed)
		s.mu.Lock()
		delete(s.running, j.ID)
		s.mu.Unlock()
		s.look()
		return nil
	})
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

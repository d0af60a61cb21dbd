package scheduler

import (
	"context"
	"log/slog"
	"math/bits"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// backoff is how long to leave alone what failed so many times before, with full jitter above a floor.
func (s *Scheduler) backoff(failures int) time.Duration {
	jitter, _ := bits.Mul64(s.Clock.Uint64(), uint64(min(retryMin<<min(failures, 10), retryMax)))
	return retryMin + time.Duration(jitter)
}

// waits reports whether it is too early for another try; a clock that was set back does not make it longer.
func waits(now, retry task.Instant) bool {
	return retry > now && retry <= now.Add(retryMin+retryMax)
}

// complain tells of a partition that could not be read or dispatched, and logs that unless it is known; more
// says how many more failures there were like this one since that was logged.
func (s *Scheduler) complain(ctx context.Context, p task.Partition, err error) {
	s.failed(p, err)
	if news, more := s.quiet.isNews(s.Clock, "partition", err); news {
		s.Log.WarnContext(ctx, "partition will be tried again", slog.String("partition", p.String()), slog.Int("more", more), slog.Any("error", err))
	}
}

func (s *Scheduler) failed(p task.Partition, err error) {
	if s.Hooks.Failed != nil {
		s.Hooks.Failed(p, err)
	}
}

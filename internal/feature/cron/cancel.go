package cron

import (
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/store"
)

// cancelOccurrences cancels occurrences that will not run. If that fails they are skipped when they are due.
func (s *Service) cancelOccurrences(ctx context.Context, c *Cron, all []nominal) {
	l, err := s.Lambdas.FindRef(ctx, c.Ref)
	if err != nil || l == nil {
		return
	}
	for _, n := range all {
		rows, err := s.Store.Wakeups(ctx, []store.WakeKey{s.FirstRow(c, l, n.revision, n.at, n.due)})
		if err == nil && len(rows) > 0 && !rows[0].ID.IsZero() {
			_, _ = s.Tasks.Cancel(ctx, &kinesinv1.CancelRequest{Ids: []string{s.PublicID(&rows[0])}}) // see above
		}
	}
}

// cancelNext cancels the next occurrence of a cron that is deleted.
func (s *Service) cancelNext(ctx context.Context, c *Cron) {
	s.cancelOccurrences(ctx, c, slices.Concat(nextOf(c, s.Clock.Now(), 1), replacedOf(c)))
}

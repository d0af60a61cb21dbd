package job

import (
	"context"
	"encoding/json"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
)

// CreateBackfill starts the job of a backfill, in its stored form, of a cron of a lambda. Without a pace it has that of the
// lambda's recovery quota.
func (s *Service) CreateBackfill(ctx context.Context, of, lambda string, r *kinesinv1.BackfillCronRequest) (*kinesinv1.Job, error) {
	id, err := s.idOf(ctx, r.RequestId)
	if err != nil {
		return nil, err
	}
	c := access.From(ctx)
	j := &job{
		ID: id.String(), Action: actionBackfill, All: r.All, State: stateRunning, Pace: r.Pace, Created: s.Clock.Now(),
		Identity: c.Name, Grants: c.Grants.Strings(), Backfill: json.RawMessage(of), Outcomes: map[string]int64{},
	}
	if j.Pace == 0 && s.Recovery != nil {
		if j.Pace, err = s.Recovery("lambda=" + lambda); err != nil {
			return nil, err
		}
	}
	response, err := s.begin(ctx, j)
	return response.GetJob(), err
}

package jobs

import (
	"context"
	"encoding/binary"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/feature/cron"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// CreateBackfill starts the job of a backfill of a cron of a lambda. Without a pace it has that of the
// lambda's recovery quota.
func (s *Service) CreateBackfill(ctx context.Context, b *cron.Backfill, lambda string, r *kinesinv1.BackfillCronRequest) (*kinesinv1.Job, error) {
	id, err := s.idOf(ctx, r.RequestId)
	if err != nil {
		return nil, err
	}
	c := access.From(ctx)
	j := &job{
		ID: id.String(), Action: actionBackfill, All: r.All, State: stateRunning, Pace: r.Pace, Created: s.Clock.Now(),
		Identity: c.Name, Grants: c.Grants.Strings(), Backfill: b, Outcomes: map[string]int64{},
	}
	if j.Pace == 0 && s.Recovery != nil {
		if j.Pace, err = s.Recovery("lambda=" + lambda); err != nil {
			return nil, err
		}
	}
	response, err := s.begin(ctx, j)
	return response.GetJob(), err
}

// fill schedules the next occurrences of a backfill.
func (s *Service) fill(ctx context.Context, j *job) (step, error) {
	var after task.Instant
	if len(j.Position) == 8 {
		after = task.Instant(binary.BigEndian.Uint64(j.Position))
	}
	ctx = access.With(ctx, access.Caller{Identity: access.Identity{Name: j.Identity, Grants: j.may}})
	filled, err := s.Fill(ctx, j.Backfill, after, j.batch())
	if err != nil {
		return step{}, refusal.Wire(err)
	}
	done := step{
		changed: make([]inbound.Changed, len(filled.Outcomes)), matched: len(filled.Outcomes), examined: len(filled.Outcomes),
		position: binary.BigEndian.AppendUint64(nil, uint64(filled.Last)), isLast: filled.IsLast,
	}
	for i, outcome := range filled.Outcomes {
		done.changed[i].Outcome = outcome
	}
	return done, nil
}

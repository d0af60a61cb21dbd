package job

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/refusal"
)

// CancelMembers starts a job that cancels the members of a group. Its place is the index that it has come to.
func (s *Service) CancelMembers(ctx context.Context, group string, r *kinesinv1.CancelGroupRequest) (*kinesinv1.Job, error) {
	if r.Pace > PaceMax {
		return nil, refusal.Invalid("pace %d: want 1 to %d tasks per second, or 0 for no limit", r.Pace, PaceMax)
	}
	return s.beginRange(ctx, r.RequestId, &job{Action: "cancel", Group: group, Pace: r.Pace})
}

// beginRange completes and begins a job over a range.
func (s *Service) beginRange(ctx context.Context, requestID []byte, j *job) (*kinesinv1.Job, error) {
	id, err := s.idOf(ctx, requestID)
	if err != nil {
		return nil, err
	}
	c := access.From(ctx)
	j.ID, j.State, j.Created, j.Outcomes = id.String(), stateRunning, s.Clock.Now(), map[string]int64{}
	j.Identity, j.Grants = c.Name, c.Grants.Strings()
	response, err := s.begin(ctx, j)
	return response.GetJob(), err
}

// over does the next part of the range of a job, and cancels the tasks in it.
func (s *Service) over(ctx context.Context, j *job, r inbound.Range, of string) (step, error) {
	as := access.With(ctx, access.Caller{Identity: access.Identity{Name: j.Identity, Grants: j.may}})
	part, err := r(as, of, j.Position, j.batch())
	if err != nil {
		return step{}, refusal.Wire(err)
	}
	rows := slices.DeleteFunc(part.Rows, func(r inbound.Row) bool { return r.ID.IsZero() || r.State.IsEnd() })
	done := step{examined: part.Examined, matched: len(rows) + len(part.Outcomes), position: part.Next, isLast: part.IsLast}
	if len(rows) > 0 {
		done.idOf = func(i int) string { return s.Tasks.PublicID(&rows[i]) }
		done.changed = s.actAgain(ctx, j, rows, nil)
	}
	for _, outcome := range part.Outcomes {
		done.changed = append(done.changed, inbound.Changed{Outcome: outcome})
	}
	return done, nil
}

// CreateBackfill starts the job of a backfill, in its stored form, of a cron of a lambda. Without a pace it has that of the
// lambda's recovery quota.
func (s *Service) CreateBackfill(ctx context.Context, of, lambda string, r *kinesinv1.BackfillCronRequest) (_ *kinesinv1.Job, err error) {
	j := &job{Action: actionBackfill, All: r.All, Pace: r.Pace, Backfill: json.RawMessage(of)}
	if j.Pace == 0 && s.Recovery != nil {
		if j.Pace, err = s.Recovery("lambda=" + lambda); err != nil {
			return nil, err
		}
	}
	return s.beginRange(ctx, r.RequestId, j)
}

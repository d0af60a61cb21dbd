package job

import (
	"context"
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
	id, err := s.idOf(ctx, r.RequestId)
	if err != nil {
		return nil, err
	}
	c := access.From(ctx)
	j := &job{
		ID: id.String(), Action: "cancel", Group: group, State: stateRunning, Pace: r.Pace, Created: s.Clock.Now(),
		Identity: c.Name, Grants: c.Grants.Strings(), Outcomes: map[string]int64{},
	}
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

package jobs

import (
	"context"
	"encoding/binary"
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

// cancelMembers cancels the next members of a group.
func (s *Service) cancelMembers(ctx context.Context, j *job) (step, error) {
	var from uint32
	if len(j.Position) == 4 {
		from = binary.BigEndian.Uint32(j.Position)
	}
	as := access.With(ctx, access.Caller{Identity: access.Identity{Name: j.Identity, Grants: j.may}})
	rows, next, isLast, err := s.Members(as, j.Group, from, j.batch())
	if err != nil {
		return step{}, refusal.Wire(err)
	}
	rows = slices.DeleteFunc(rows, func(r inbound.Row) bool { return r.ID.IsZero() || r.State.IsEnd() })
	done := step{examined: int(next - from), matched: len(rows), position: binary.BigEndian.AppendUint32(nil, next), isLast: isLast}
	if len(rows) > 0 {
		done.idOf = func(i int) string { return s.Tasks.PublicID(&rows[i]) }
		done.changed = s.actAgain(ctx, j, rows, nil)
	}
	return done, nil
}

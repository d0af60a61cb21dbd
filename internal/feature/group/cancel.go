package group

import (
	"context"
	"encoding/binary"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/control"
)

// CancelGroup makes a job that cancels the members of a group, and seals the group. The job comes first: once
// it is stored all of that happens, whoever dies.
func (s *Service) CancelGroup(ctx context.Context, r *kinesinv1.CancelGroupRequest) (_ *kinesinv1.CancelGroupResponse, err error) {
	defer func() { err = wire(err) }()
	g, err := s.find(ctx, r.Group)
	if err != nil {
		return nil, err
	}
	if !g.Completed.IsZero() || s.Clock.Now() >= g.Expires {
		return nil, api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "group %s is %s: there is nothing to cancel, but for members that are left (kinesin group members) and what follows it", g.ID, endedText(g))
	}
	job, err := s.CancelMembers(ctx, g.ID, r)
	if err != nil {
		return nil, err
	}
	if g, err = s.sealForCancel(ctx, g.ID); err != nil {
		return nil, err
	}
	v, err := s.view(ctx, g)
	return &kinesinv1.CancelGroupResponse{Group: v, Job: job}, err
}

// sealForCancel seals a group that is cancelled, unless it has ended. The caller in the context is who
// cancels it.
func (s *Service) sealForCancel(ctx context.Context, id string) (*Group, error) {
	wasSealed := false
	g, err := s.groups.Change(ctx, id, func(g *Group) (control.Do, error) {
		if wasSealed = !g.Sealed.IsZero(); !g.Cancelled.IsZero() || !g.Completed.IsZero() {
			return control.Keep, nil
		}
		g.Cancelled, g.CancelledBy = s.Clock.Now(), access.From(ctx).Name
		if !wasSealed {
			g.Sealed = g.Cancelled
		}
		return control.Store, nil
	})
	if err == nil {
		s.sealed(ctx, g, wasSealed)
	}
	return g, err
}

// Range is the inbound.Range of members of a group that are cancelled. The position is the index that it has come to. It
// sees to it that the group is sealed first.
func (s *Service) Range(ctx context.Context, id string, position []byte, limit int) (inbound.Part, error) {
	g, err := s.find(ctx, id)
	if err == nil && g.Cancelled.IsZero() && g.Completed.IsZero() {
		g, err = s.sealForCancel(ctx, id)
	}
	if err != nil {
		return inbound.Part{}, err
	}
	var from uint32
	if len(position) == 4 {
		from = binary.BigEndian.Uint32(position)
	}
	next := min(g.Members, from+uint32(limit))
	found, err := s.Store.Tasks(ctx, g.IDs(min(from, next), next))
	if err != nil {
		return inbound.Part{}, err
	}
	var ids []string
	for i := range found {
		if !found[i].ID.IsZero() && !found[i].State.IsEnd() {
			ids = append(ids, s.PublicID(&found[i]))
		}
	}
	rows, err := s.Tasks.RowsOf(ctx, ids)
	return inbound.Part{
		Rows: rows, Examined: int(next - from), Next: binary.BigEndian.AppendUint32(nil, next), IsLast: next == g.Members,
	}, err
}

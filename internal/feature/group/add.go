package group

import (
	"context"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// abandonedAfter is the age of a task from which the call that stored it, and did not have the group
	// count it, is taken to be dead.
	abandonedAfter = 30 * time.Second
	// addAgainAfter is after how long a call at such a place is made again.
	addAgainAfter = 5 * time.Second
	// restFirst is how many members are looked for first behind those that a group counts: calls store so
	// many at once at least.
	restFirst = 25
)

// AddMembers schedules members of a group. Their rows are stored before the group counts them, so that it
// never counts one that is not there.
func (s *Service) AddMembers(ctx context.Context, r *kinesinv1.AddMembersRequest) (_ *kinesinv1.AddMembersResponse, err error) {
	defer func() { err = wire(err) }()
	n := len(r.Items)
	if n == 0 || n > api.ItemsMax {
		return nil, refusal.Invalid("a call adds 1 to %d members, this one has %d", api.ItemsMax, n)
	}
	g, err := s.find(ctx, r.Group)
	if err != nil {
		return nil, err
	}
	rows, g, duplicate, err := s.store(ctx, g, r)
	if err != nil {
		return nil, err
	}
	if duplicate && g.IsEnded() {
		return s.hadMembers(ctx, g, r.At, r.At+uint32(n))
	}
	if !duplicate {
		lasting := context.WithoutCancel(ctx) // what is stored is better counted
		g, duplicate, err = s.advance(lasting, g.ID, r.At, r.At+uint32(n), rows[n-1].Member.Try)
		if err != nil {
			s.withdraw(lasting, r.Group, r.At, rows)
			return nil, err
		}
	}
	response := &kinesinv1.AddMembersResponse{Members: g.Members, Duplicate: duplicate, Ids: make([]string, n)}
	for i, row := range rows {
		response.Ids[i] = s.PublicID(row)
	}
	return response, nil
}

// store stores the rows of members, unless the group has them and has ended.
func (s *Service) store(ctx context.Context, g *Group, r *kinesinv1.AddMembersRequest) (rows []*task.Task, now *Group, duplicate bool, err error) {
	to := uint64(r.At) + uint64(len(r.Items))
	for tookOver := false; ; tookOver = true {
		if duplicate, err = mayAdd(g, r.At, to, s.Clock.Now()); err != nil || duplicate && g.IsEnded() {
			return nil, g, duplicate, err
		}
		rows, err = s.Tasks.AddMembers(ctx, inbound.Members{Group: g.Key(), At: r.At, TryAt: g.TryAt, DueMax: g.Expires, Until: g.Until()}, r.Items)
		if duplicate || tookOver || refusal.Problem(err).GetReason() != kinesinv1.Reason_REASON_KEY_CONFLICT {
			return rows, g, duplicate, err
		}
		if g, err = s.takeOver(ctx, g, r.At, uint32(to)); err != nil {
			return nil, g, false, err
		}
	}
}

// takeOver makes room for members where a call has left other tasks and died before the group counted them:
// they are cancelled, and the members of the place are other tasks from now on. A call that still runs is not
// disturbed.
func (s *Service) takeOver(ctx context.Context, g *Group, at, to uint32) (*Group, error) {
	rows, err := s.Store.Tasks(ctx, g.IDs(at, to))
	if err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	for i := range rows {
		if left := rows[i].Created.Add(abandonedAfter).Sub(now); !rows[i].ID.IsZero() && left > 0 {
			return nil, api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "another call adds other members to group %s at %d, or died while it did: in %v at the latest they can be added",
				g.ID, at, left.Round(time.Second)).After(min(left, addAgainAfter))
		}
	}
	before := *g
	tries := len(g.Tries)
	next, err := s.groups.Change(ctx, g.ID, func(g *Group) (control.Do, error) {
		if duplicate, err := mayAdd(g, at, uint64(to), now); duplicate || err != nil || len(g.Tries) != tries {
			return control.Keep, err
		}
		if tries == TriesMax {
			return control.Keep, api.Errorf(kinesinv1.Reason_REASON_FULL, "calls that died have left tasks in the way of members of group %s %d times, and may so often: seal it, and make another group", g.ID, tries)
		}
		g.Tries = append(slices.Clone(g.Tries), at)
		return control.Store, nil
	})
	if err == nil {
		s.withdrawRest(context.WithoutCancel(ctx), &before)
	}
	return next, err
}

// hadMembers answers a call that an earlier one made, when the group has ended since. Nothing is scheduled:
// the rows of members may be gone.
func (s *Service) hadMembers(ctx context.Context, g *Group, at, to uint32) (*kinesinv1.AddMembersResponse, error) {
	rows, err := s.Store.Tasks(ctx, g.IDs(at, to))
	if err != nil {
		return nil, err
	}
	response := &kinesinv1.AddMembersResponse{Members: g.Members, Duplicate: true, Ids: make([]string, len(rows))}
	for i := range rows {
		if !rows[i].ID.IsZero() {
			response.Ids[i] = s.PublicID(&rows[i])
		}
	}
	return response, nil
}

// mayAdd refuses members that a group cannot get. duplicate says that it has them.
func mayAdd(g *Group, at uint32, to uint64, now task.Instant) (duplicate bool, err error) {
	switch {
	case to <= uint64(g.Members):
		return true, nil
	case !g.Completed.IsZero() || now >= g.Expires:
		return false, api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "group %s is %s: it gets no more members", g.ID, endedText(g))
	case !g.Cancelled.IsZero():
		return false, api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "group %s is cancelled: it gets no more members", g.ID)
	case !g.Sealed.IsZero():
		return false, api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "group %s is sealed with %d members: it gets no more", g.ID, g.Members)
	case at != g.Members:
		return false, api.Errorf(kinesinv1.Reason_REASON_STALE_SEQ, "group %s has %d members: the next are added at %d, not at %d", g.ID, g.Members, g.Members, at)
	case to > task.GroupMembersMax:
		return false, refusal.Invalid("group %s would have %d members: want at most %d", g.ID, to, task.GroupMembersMax)
	}
	return false, nil
}

func endedText(g *Group) string {
	if !g.Completed.IsZero() && !g.Expired {
		return Done
	}
	return Expired
}

// advance has a group count members whose rows are stored, unless another call took their place: try is
// that of the last one.
func (s *Service) advance(ctx context.Context, id string, at, to, try uint32) (g *Group, duplicate bool, err error) {
	g, err = s.groups.Change(ctx, id, func(g *Group) (control.Do, error) {
		if g.TryAt(to-1) != try {
			return control.Keep, errTakenOver(g)
		}
		if duplicate, err = mayAdd(g, at, uint64(to), s.Clock.Now()); duplicate || err != nil {
			return control.Keep, err
		}
		g.Members = to
		return control.Store, nil
	})
	return g, duplicate, err
}

func errTakenOver(g *Group) error {
	return api.Errorf(kinesinv1.Reason_REASON_STALE_SEQ, "another call added other members to group %s meanwhile: it has %d", g.ID, g.Members)
}

// withdraw cancels tasks that were stored as members of a group and that it can never count, because it was
// sealed without them or another call took their place.
func (s *Service) withdraw(ctx context.Context, id string, at uint32, rows []*task.Task) {
	g, err := s.groups.Find(ctx, id)
	if err != nil {
		return
	}
	var ids []string
	for i, row := range rows {
		isOther := row.Member.Try != g.TryAt(at+uint32(i))
		if isOther || !g.Sealed.IsZero() && at+uint32(i) >= g.Members { // else it counts when the call is made again
			ids = append(ids, s.PublicID(row))
		}
	}
	s.cancel(ctx, ids)
}

// withdrawRest cancels the tasks that calls which died have left behind the members of a group.
func (s *Service) withdrawRest(ctx context.Context, g *Group) {
	end := min(g.Members+api.ItemsMax, task.GroupMembersMax)
	for from, size := g.Members, uint32(restFirst); from < end; size = readMax {
		to := min(from+size, end)
		rows, err := s.Store.Tasks(ctx, g.IDs(from, to))
		if err != nil {
			return
		}
		var ids []string
		found := false
		for i := range rows {
			found = found || !rows[i].ID.IsZero()
			if !rows[i].ID.IsZero() && !rows[i].State.IsEnd() {
				ids = append(ids, s.PublicID(&rows[i]))
			}
		}
		if !found {
			return
		}
		s.cancel(ctx, ids)
		from = to
	}
}

// cancel cancels tasks of a group that do not count. One that a worker has is told to stop; what cannot be
// cancelled runs.
func (s *Service) cancel(ctx context.Context, ids []string) {
	for some := range slices.Chunk(ids, api.IDsMax) {
		_, _ = s.Tasks.Cancel(ctx, &kinesinv1.CancelRequest{Ids: some})
	}
}

package group

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// complete stores that a group has ended, and how; then it ends it. Of several who do so, one is the first:
// the others go on with what that one stored.
func (k *Keeper) complete(ctx context.Context, tr *tracker, expired bool) (next time.Duration, err error) {
	now, g := k.Clock.Now(), *tr.group
	g.Cursor, g.Ended, g.Completed, g.Expired = tr.count.cursor, tr.count.ended, now, expired
	err = k.groups.Put(ctx, &g)
	switch {
	case errors.Is(err, store.ErrConflict):
		tr.group = nil
		return 0, nil
	case err != nil:
		return 0, err
	}
	return control.Done, k.finish(ctx, &g)
}

// finish schedules what follows after a group that is complete, and moves its row out of the way of those
// that are not. Each step may be made again.
func (k *Keeper) finish(ctx context.Context, g *Group) error {
	ended := *g
	spec, err := findSpec(ctx, k.Store, g.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		ended.Problem = "the group was never wholly created"
	case err != nil:
		return err
	default:
		if err := k.follow(ctx, spec, &ended); err != nil {
			return err
		}
	}
	_, err = k.groups.Bury(ctx, &ended)
	return err
}

// follow schedules what follows after a group, and notes in it what became of that.
func (k *Keeper) follow(ctx context.Context, spec *Spec, g *Group) error {
	all := spec.All()
	g.FollowUps = slices.Clone(g.FollowUps)
	for i, item := range all {
		if !spec.Follows(g, item.Edge) {
			continue
		}
		id, err := k.FollowUp(ctx, item.Item, followUpID(g.Key(), all, i), g.End(), g.Completed)
		if err != nil && k.ForNow(err) {
			return fmt.Errorf("schedule what follows: %w", err)
		}
		problem := ""
		if err != nil {
			problem = err.Error()
			k.Log.ErrorContext(ctx, "a task does not follow after a group", slog.String("group", g.ID), slog.String("edge", item.Edge.String()), slog.Any("error", err))
		}
		if i < len(g.FollowUps) {
			g.FollowUps[i].ID, g.FollowUps[i].Problem = id, problem
		}
		g.FollowUp, g.Problem = cmp.Or(g.FollowUp, id), cmp.Or(g.Problem, problem)
	}
	return nil
}

// followUpID returns the id of a task that follows after a group. It is the same whoever schedules it. The
// first then and the first else, of which one follows, have that of the group.
func followUpID(group task.ID, all []Item, i int) task.ID {
	place := i
	for k := range all[:i] {
		if all[k].Edge != all[i].Edge {
			place--
		}
	}
	if place == 0 && all[i].Edge != task.Finally {
		return group
	}
	return group.OwnedBy(fmt.Sprintf("%s %d", all[i].Edge, place))
}

// tidy forgets groups that ended and expired long ago.
func (k *Keeper) tidy(ctx context.Context) error {
	return k.groups.Forget(ctx, control.Forget[Group]{
		Until: (*Group).Until,
		First: func(ctx context.Context, g *Group) error {
			spec, err := k.Store.Control(ctx, KindSpec, g.ID)
			if err == nil {
				err = k.Store.DeleteControl(ctx, spec)
			}
			if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrConflict) {
				return nil
			}
			return err
		},
	})
}

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

package group

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// listDefault is how many members a page has when nothing is said.
	listDefault = 100
	// countMax bounds the members that are read to show a group, beyond those that are counted already.
	countMax = 10_000
)

// Tasks schedules and shows tasks.
type Tasks interface {
	AddMembers(ctx context.Context, of inbound.Members, items []*kinesinv1.ScheduleItem) ([]*task.Task, error)
	CheckFollowUp(ctx context.Context, item *kinesinv1.ScheduleItem) (*catalog.Entry, error)
	Cancel(ctx context.Context, r *kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error)
	ViewRows(rows []task.Task) (views []*kinesinv1.Task, shown int)
	RowsOf(ctx context.Context, ids []string) ([]inbound.Row, error)
}

// ServiceConfig is what a Service is made of.
type ServiceConfig struct {
	Store Store
	Tasks Tasks
	// Look has a group counted at once.
	Look func(id task.ID)
	// CancelMembers has a job cancel the members of a group.
	CancelMembers func(ctx context.Context, group string, r *kinesinv1.CancelGroupRequest) (*kinesinv1.Job, error)
	// Full reports whether no more groups may be open.
	Full func() bool
	// PublicID returns the id of a task as users see it.
	PublicID func(t *task.Task) string
	Clock    clock.Clock
}

// Service serves groups. It is safe for concurrent use.
type Service struct {
	ServiceConfig

	groups *control.Book[Group]
}

// NewService returns a Service.
func NewService(c ServiceConfig) *Service { return &Service{c, NewBook(c.Store, c.Clock)} }

func wire(err error) error {
	if errors.Is(err, store.ErrConflict) {
		return api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the group kept changing; try again")
	}
	return refusal.Wire(err)
}

func noGroup(id string) error {
	return api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "there is no group %.80q, or it expired long ago", id)
}

func (s *Service) find(ctx context.Context, id string) (*Group, error) {
	if key, err := task.ParseID(id); err != nil || key.String() != id {
		return nil, noGroup(id)
	}
	g, err := s.groups.Find(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, noGroup(id)
	}
	return g, err
}

// SealGroup says that a group gets no more members.
func (s *Service) SealGroup(ctx context.Context, r *kinesinv1.SealGroupRequest) (_ *kinesinv1.SealGroupResponse, err error) {
	defer func() { err = wire(err) }()
	if _, err := s.find(ctx, r.Group); err != nil {
		return nil, err
	}
	duplicate := false
	g, err := s.groups.Change(ctx, r.Group, func(g *Group) (control.Do, error) {
		if r.Members != nil && *r.Members != g.Members {
			return control.Keep, api.Errorf(kinesinv1.Reason_REASON_STALE_SEQ, "group %s has %d members, not %d", g.ID, g.Members, *r.Members)
		}
		if duplicate = !g.Sealed.IsZero(); duplicate {
			return control.Keep, nil
		}
		now := s.Clock.Now()
		if !g.Completed.IsZero() || now >= g.Expires {
			return control.Keep, api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "group %s expired before it was sealed", g.ID)
		}
		g.Sealed = now
		return control.Store, nil
	})
	if err != nil {
		return nil, err
	}
	s.sealed(ctx, g, duplicate)
	v, err := s.view(ctx, g)
	return &kinesinv1.SealGroupResponse{Group: v, Duplicate: duplicate}, err
}

// sealed does what follows a seal.
func (s *Service) sealed(ctx context.Context, g *Group, wasSealed bool) {
	if !wasSealed {
		s.withdrawRest(context.WithoutCancel(ctx), g)
	}
	if !g.IsEnded() {
		s.Look(g.Key())
	}
}

// GetGroup returns a group, with its members counted by state.
func (s *Service) GetGroup(ctx context.Context, r *kinesinv1.GetGroupRequest) (_ *kinesinv1.GetGroupResponse, err error) {
	defer func() { err = wire(err) }()
	g, err := s.find(ctx, r.Id)
	if err != nil {
		return nil, err
	}
	v, err := s.view(ctx, g)
	return &kinesinv1.GetGroupResponse{Group: v}, err
}

// LambdaOf returns the lambda and the collection of the first task that follows after a group, for whoever
// decides who may see and change it.
func (s *Service) LambdaOf(ctx context.Context, id string) (lambda, collection string, err error) {
	g, err := s.find(ctx, id)
	if err != nil {
		return "", "", wire(err)
	}
	return g.Lambda(), g.collection(), nil
}

// newestRowsRead is how many rows of each kind are decoded to find the newest groups.
const newestRowsRead = 1000

// Newest returns the newest groups that the caller may read, newest first, as far as their members were counted
// already; more: there are others, or may be.
func (s *Service) Newest(ctx context.Context, limit int) (newest []*kinesinv1.Group, more bool, err error) {
	groups, err := s.readable(ctx, func(rows []store.Control) []store.Control {
		if over := len(rows) - newestRowsRead; over > 0 { // ids begin with the time
			rows, more = rows[over:], true
		}
		return rows
	})
	if err != nil {
		return nil, false, err
	}
	for _, g := range groups {
		newest = append(newest, counted(g, access.From(ctx).Grants))
	}
	slices.SortFunc(newest, func(a, b *kinesinv1.Group) int { return cmp.Compare(b.Created, a.Created) })
	if len(newest) > limit {
		newest, more = newest[:limit], true
	}
	return newest, more, nil
}

// IDsThatBegin returns the ids, of the groups that the caller may read, that begin with a text.
func (s *Service) IDsThatBegin(ctx context.Context, text string) (ids []string, err error) {
	groups, err := s.readable(ctx, func(rows []store.Control) []store.Control {
		return slices.DeleteFunc(rows, func(r store.Control) bool { return !strings.HasPrefix(r.Name, text) })
	})
	for _, g := range groups {
		ids = append(ids, g.ID)
	}
	return ids, err
}

// readable returns the groups that the caller may read, of those rows that choose takes of all open and of all ended groups.
func (s *Service) readable(ctx context.Context, choose func([]store.Control) []store.Control) (groups []*Group, err error) {
	by, seen := access.From(ctx).Grants, map[string]bool{}
	for _, kind := range []string{KindOpen, KindEnded} { // in this order: one that is moved meanwhile is found
		rows, err := s.Store.Controls(ctx, kind)
		if err != nil {
			return nil, wire(err)
		}
		for _, row := range choose(rows) {
			g, err := asRows.Decode(row)
			if err != nil || seen[g.ID] || !by.AllowIn(access.Read, g.Lambda(), g.collection()) {
				continue
			}
			seen[g.ID] = true
			groups = append(groups, g)
		}
	}
	return groups, nil
}

// counted returns a group as users see it, with the members that were counted already.
func counted(g *Group, by access.Grants) *kinesinv1.Group {
	return &kinesinv1.Group{
		Id: g.ID, Then: g.Then, Else: g.Else, State: g.State(), Members: g.Members, Created: int64(g.Created), CreatedBy: g.CreatedBy,
		Expires: int64(g.Expires), Completed: int64(g.Completed), FollowUp: g.FollowUp, Problem: g.Problem, Counted: g.Cursor, Counts: g.Ended.ByName(),
		Cancelled: int64(g.Cancelled), CancelledBy: g.CancelledBy, FollowUps: followUpViews(g, by),
	}
}

// view returns a group as users see it.
func (s *Service) view(ctx context.Context, g *Group) (*kinesinv1.Group, error) {
	v := counted(g, access.From(ctx).Grants)
	if !g.Completed.IsZero() {
		return v, nil
	}
	for end := min(g.Members, g.Cursor+countMax); v.Counted < end; {
		to := min(end, v.Counted+readMax)
		rows, err := s.Store.Tasks(ctx, g.IDs(v.Counted, to))
		if err != nil {
			return nil, err
		}
		for i := range rows {
			state := rows[i].State
			if rows[i].ID.IsZero() {
				state = task.Dropped // it was deleted
			}
			v.Counts[state.String()]++
		}
		v.Counted = to
	}
	return v, nil
}

// followUpViews shows the tasks that follow after a group. Of one that the reader may not read it shows only
// its place.
func followUpViews(g *Group, by access.Grants) []*kinesinv1.GroupFollowUp {
	views := make([]*kinesinv1.GroupFollowUp, len(g.FollowUps))
	for i, f := range g.FollowUps {
		views[i] = &kinesinv1.GroupFollowUp{Edge: f.Edge.String()}
		if by.AllowIn(access.Read, f.Lambda, f.Collection) || by.AllowIn(access.Schedule, f.Lambda, f.Collection) {
			views[i].Lambda, views[i].Id, views[i].Problem = f.Lambda, f.ID, f.Problem
		}
	}
	return views
}

// ListMembers returns members with their results.
func (s *Service) ListMembers(ctx context.Context, r *kinesinv1.ListMembersRequest) (_ *kinesinv1.ListMembersResponse, err error) {
	defer func() { err = wire(err) }()
	limit := cmp.Or(r.Limit, listDefault)
	if limit > api.MembersListMax {
		return nil, refusal.Invalid("limit %d: want 1 to %d, or 0 for %d", limit, api.MembersListMax, listDefault)
	}
	g, err := s.find(ctx, r.Group)
	if err != nil {
		return nil, err
	}
	from := min(r.From, g.Members)
	rows, err := s.Store.Tasks(ctx, g.IDs(from, min(g.Members, from+limit)))
	if err != nil {
		return nil, err
	}
	views, shown := s.Tasks.ViewRows(rows)
	response := &kinesinv1.ListMembersResponse{Next: from + uint32(shown), Members: make([]*kinesinv1.MemberOfGroup, shown)}
	response.More = response.Next < g.Members
	for i, v := range views {
		response.Members[i] = &kinesinv1.MemberOfGroup{Index: from + uint32(i), Task: v}
	}
	return response, nil
}

// Package grouping serves the GroupService of the wire contract: it makes groups, adds members to them, seals
// and shows them. A group is a control row (package groups, which counts it and has the follow-up scheduled);
// members are tasks, which the package schedules and reads by inbound.
package grouping

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/groups"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// listDefault is how many members a page has when nothing is said.
	listDefault = 100
	// countMax bounds the members that are read to show a group, beyond those that are counted already.
	countMax = 10_000
	// readMax is how many members one read asks for.
	readMax = 1000
)

// Tasks schedules and shows tasks.
type Tasks interface {
	AddMembers(ctx context.Context, of inbound.Members, items []*kinesinv1.ScheduleItem) ([]*task.Task, error)
	CheckFollowUp(ctx context.Context, item *kinesinv1.ScheduleItem) (*catalog.Entry, error)
	Cancel(ctx context.Context, r *kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error)
	ViewRows(rows []task.Task) (views []*kinesinv1.Task, shown int)
}

// Config is what a Service is made of.
type Config struct {
	Store groups.Store
	Tasks Tasks
	// Look has a group counted at once.
	Look func(id task.ID)
	// Full reports whether no more groups may be open.
	Full func() bool
	// PublicID returns the id of a task as users see it.
	PublicID func(t *task.Task) string
	Clock    clock.Clock
}

// Service serves groups. It is safe for concurrent use.
type Service struct{ Config }

// New returns a Service.
func New(c Config) *Service { return &Service{c} }

// CreateGroup makes a group.
func (s *Service) CreateGroup(ctx context.Context, r *kinesinv1.CreateGroupRequest) (_ *kinesinv1.CreateGroupResponse, err error) {
	defer func() { err = wire(err) }()
	g, spec, err := s.newGroup(ctx, r)
	if err != nil {
		return nil, err
	}
	if s.Full() {
		return nil, api.Errorf(kinesinv1.Reason_REASON_THROTTLED, "about %d groups have not ended, and there may be no more: seal some, or wait until some are done", groups.OpenMax)
	}
	existed := false
	err = groups.Put(ctx, s.Store, g)
	if errors.Is(err, store.ErrConflict) {
		existed = true
		g, err = s.sameGroup(ctx, g)
	}
	if err != nil {
		return nil, err
	}
	if err := groups.PutSpec(ctx, s.Store, g.ID, spec); err != nil {
		return nil, err
	}
	v, err := s.view(ctx, g)
	return &kinesinv1.CreateGroupResponse{Group: v, Existed: existed}, err
}

// sameGroup returns the group that is there, if it is the one that an earlier try of the same call made.
func (s *Service) sameGroup(ctx context.Context, want *groups.Group) (*groups.Group, error) {
	have, err := groups.Find(ctx, s.Store, want.ID)
	switch {
	case err != nil:
		return nil, err
	case have.CreatedBy != want.CreatedBy || !bytes.Equal(have.Spec, want.Spec):
		return nil, api.Errorf(kinesinv1.Reason_REASON_EXISTS, "group %s exists, and another task follows after it: want another request id", want.ID)
	}
	return have, nil
}

// newGroup returns the group that a request asks for, and what follows after it.
func (s *Service) newGroup(ctx context.Context, r *kinesinv1.CreateGroupRequest) (*groups.Group, []byte, error) {
	if r.Then == nil {
		return nil, nil, refusal.Invalid("then: there is none; want the task that follows when all members have ended")
	}
	now := s.Clock.Now()
	expires := task.Instant(r.ExpiresMicros)
	if r.ExpiresMicros == 0 {
		expires = now.Add(groups.ExpiryDefault)
	}
	if expires <= now || expires > now.Add(groups.ExpiryMax) {
		return nil, nil, refusal.Invalid("expires %s: want a time to come, within %d days", time.UnixMicro(r.ExpiresMicros).UTC().Format(time.RFC3339), groups.ExpiryMax/(24*time.Hour))
	}
	id, err := s.idFor(r.RequestId, now)
	if err != nil {
		return nil, nil, err
	}
	g := &groups.Group{ID: id.String(), Created: now, CreatedBy: access.From(ctx).Name, Expires: expires}
	var spec groups.Spec
	l, err := s.Tasks.CheckFollowUp(ctx, r.Then)
	if err != nil {
		return nil, nil, following("then", err)
	}
	if g.Then, g.ThenRef = l.Name, l.Ref; r.Else != nil {
		other, err := s.Tasks.CheckFollowUp(ctx, r.Else)
		if err != nil {
			return nil, nil, following("else", err)
		}
		g.Else = other.Name
	}
	if spec.Then, err = encode(r.Then); err == nil {
		spec.Else, err = encode(r.Else)
	}
	if err != nil {
		return nil, nil, err
	}
	if n := len(spec.Then) + len(spec.Else); n > groups.TemplateBytesMax {
		return nil, nil, api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE, "then and else have %d bytes: want at most %d", n, groups.TemplateBytesMax)
	}
	value, err := json.Marshal(spec)
	if err != nil {
		return nil, nil, err
	}
	sum := sha256.Sum256(value)
	g.Spec = sum[:]
	return g, value, nil
}

func encode(item *kinesinv1.ScheduleItem) ([]byte, error) {
	if item == nil {
		return nil, nil
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(item)
}

func (s *Service) idFor(request []byte, now task.Instant) (task.ID, error) {
	id, err := intake.RequestID(request)
	switch {
	case err != nil:
		return id, err
	case id.IsZero():
		return task.NewID(now, s.Clock.Uint64(), s.Clock.Uint64()), nil
	case intake.IsAhead(id, now):
		return id, refusal.Invalid("request id: its time is more than %v ahead of the server's clock", catalog.IDAheadMax)
	}
	return id, nil
}

// following says of which follow-up a refusal is.
func following(which string, err error) error {
	p := refusal.Problem(err)
	if p.GetReason() == kinesinv1.Reason_REASON_INTERNAL {
		return err
	}
	p.Text = which + ": " + p.GetText()
	return api.ErrorOf(p)
}

func wire(err error) error {
	if errors.Is(err, groups.ErrBusy) {
		return api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the group kept changing; try again")
	}
	return refusal.Wire(err)
}

func noGroup(id string) error {
	return api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "there is no group %.80q, or it expired long ago", id)
}

func (s *Service) find(ctx context.Context, id string) (*groups.Group, error) {
	if key, err := task.ParseID(id); err != nil || key.String() != id {
		return nil, noGroup(id)
	}
	g, err := groups.Find(ctx, s.Store, id)
	if errors.Is(err, store.ErrNotFound) {
		return nil, noGroup(id)
	}
	return g, err
}

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
	to := uint64(r.At) + uint64(n)
	existed, err := mayAdd(g, r.At, to, s.Clock.Now())
	if err != nil {
		return nil, err
	}
	if existed && g.IsEnded() {
		return s.hadMembers(ctx, g, r.At, uint32(to))
	}
	rows, err := s.Tasks.AddMembers(ctx, inbound.Members{Group: g.Key(), At: r.At, DueMax: g.Expires, Until: g.Until()}, r.Items)
	if err != nil {
		return nil, err
	}
	if !existed {
		lasting := context.WithoutCancel(ctx) // what is stored is better counted
		g, existed, err = s.advance(lasting, g.ID, r.At, uint32(to))
		if err != nil {
			s.withdraw(lasting, r.Group, r.At, rows)
			return nil, err
		}
	}
	response := &kinesinv1.AddMembersResponse{Members: g.Members, Existed: existed, Ids: make([]string, n)}
	for i, row := range rows {
		response.Ids[i] = s.PublicID(row)
	}
	return response, nil
}

// hadMembers answers a call that an earlier one made, when the group has ended since. Nothing is scheduled:
// the rows of members may be gone.
func (s *Service) hadMembers(ctx context.Context, g *groups.Group, at, to uint32) (*kinesinv1.AddMembersResponse, error) {
	rows, err := s.Store.Tasks(ctx, g.IDs(at, to))
	if err != nil {
		return nil, err
	}
	response := &kinesinv1.AddMembersResponse{Members: g.Members, Existed: true, Ids: make([]string, len(rows))}
	for i := range rows {
		if !rows[i].ID.IsZero() {
			response.Ids[i] = s.PublicID(&rows[i])
		}
	}
	return response, nil
}

// mayAdd refuses members that a group cannot get. existed says that it has them.
func mayAdd(g *groups.Group, at uint32, to uint64, now task.Instant) (existed bool, err error) {
	switch {
	case to <= uint64(g.Members):
		return true, nil
	case !g.Completed.IsZero() || now >= g.Expires:
		return false, api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "group %s is %s: it gets no more members", g.ID, endedText(g))
	case !g.Sealed.IsZero():
		return false, api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "group %s is sealed with %d members: it gets no more", g.ID, g.Members)
	case at != g.Members:
		return false, api.Errorf(kinesinv1.Reason_REASON_STALE_SEQ, "group %s has %d members: the next are added at %d, not at %d", g.ID, g.Members, g.Members, at)
	case to > task.GroupMembersMax:
		return false, refusal.Invalid("group %s would have %d members: want at most %d", g.ID, to, task.GroupMembersMax)
	}
	return false, nil
}

func endedText(g *groups.Group) string {
	if !g.Completed.IsZero() && !g.Expired {
		return groups.Done
	}
	return groups.Expired
}

// advance has a group count members whose rows are stored.
func (s *Service) advance(ctx context.Context, id string, at, to uint32) (g *groups.Group, existed bool, err error) {
	g, err = groups.Change(ctx, s.Store, id, func(g *groups.Group) (bool, error) {
		if existed, err = mayAdd(g, at, uint64(to), s.Clock.Now()); existed || err != nil {
			return false, err
		}
		g.Members = to
		return true, nil
	})
	return g, existed, err
}

// withdraw cancels tasks that were stored as members of a group which was sealed meanwhile without them: they
// can never count. One that a worker has is told to stop.
func (s *Service) withdraw(ctx context.Context, id string, at uint32, rows []*task.Task) {
	g, err := groups.Find(ctx, s.Store, id)
	if err != nil || g.Sealed.IsZero() {
		return // they count when the call is made again
	}
	var ids []string
	for i, row := range rows {
		if at+uint32(i) >= g.Members {
			ids = append(ids, s.PublicID(row))
		}
	}
	for some := range slices.Chunk(ids, api.IDsMax) {
		_, _ = s.Tasks.Cancel(ctx, &kinesinv1.CancelRequest{Ids: some}) // what remains runs, and does not count
	}
}

// SealGroup says that a group gets no more members.
func (s *Service) SealGroup(ctx context.Context, r *kinesinv1.SealGroupRequest) (_ *kinesinv1.SealGroupResponse, err error) {
	defer func() { err = wire(err) }()
	if _, err := s.find(ctx, r.Group); err != nil {
		return nil, err
	}
	existed := false
	g, err := groups.Change(ctx, s.Store, r.Group, func(g *groups.Group) (bool, error) {
		if r.Members != 0 && r.Members != g.Members {
			return false, api.Errorf(kinesinv1.Reason_REASON_STALE_SEQ, "group %s has %d members, not %d", g.ID, g.Members, r.Members)
		}
		if existed = !g.Sealed.IsZero(); existed {
			return false, nil
		}
		now := s.Clock.Now()
		if !g.Completed.IsZero() || now >= g.Expires {
			return false, api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "group %s expired before it was sealed", g.ID)
		}
		g.Sealed = now
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	if !g.IsEnded() {
		s.Look(g.Key())
	}
	v, err := s.view(ctx, g)
	return &kinesinv1.SealGroupResponse{Group: v, Existed: existed}, err
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

// LambdaOf returns the lambda that follows after a group, for whoever decides who may see and change it.
func (s *Service) LambdaOf(ctx context.Context, id string) (string, error) {
	g, err := s.find(ctx, id)
	if err != nil {
		return "", wire(err)
	}
	return g.Then, nil
}

// view returns a group as users see it.
func (s *Service) view(ctx context.Context, g *groups.Group) (*kinesinv1.Group, error) {
	v := &kinesinv1.Group{
		Id: g.ID, Then: g.Then, Else: g.Else, State: g.State(), Members: g.Members, CreatedMicros: int64(g.Created), CreatedBy: g.CreatedBy,
		ExpiresMicros: int64(g.Expires), CompletedMicros: int64(g.Completed), FollowUp: g.FollowUp, Problem: g.Problem, Counted: g.Cursor, Counts: g.Ended.ByName(),
	}
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

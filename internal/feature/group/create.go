package group

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// CreateGroup makes a group.
func (s *Service) CreateGroup(ctx context.Context, r *kinesinv1.CreateGroupRequest) (_ *kinesinv1.CreateGroupResponse, err error) {
	defer func() { err = wire(err) }()
	g, spec, err := s.newGroup(ctx, r)
	if err != nil {
		return nil, err
	}
	if s.Full() {
		return nil, api.Errorf(kinesinv1.Reason_REASON_THROTTLED, "about %d groups have not ended, and there may be no more: seal some, or wait until some are done", OpenMax)
	}
	duplicate := false
	err = s.groups.Put(ctx, g)
	if errors.Is(err, store.ErrConflict) {
		duplicate = true
		g, err = s.sameGroup(ctx, g)
	}
	if err != nil {
		return nil, err
	}
	if err := PutSpec(ctx, s.Store, g.ID, spec); err != nil {
		return nil, err
	}
	v, err := s.view(ctx, g)
	return &kinesinv1.CreateGroupResponse{Group: v, Duplicate: duplicate}, err
}

// sameGroup returns the group that is there, if it is the one that an earlier try of the same call made.
func (s *Service) sameGroup(ctx context.Context, want *Group) (*Group, error) {
	have, err := s.groups.Find(ctx, want.ID)
	switch {
	case err != nil:
		return nil, err
	case have.CreatedBy != want.CreatedBy || !bytes.Equal(have.Spec, want.Spec):
		return nil, api.Errorf(kinesinv1.Reason_REASON_EXISTS, "group %s exists, and another task follows after it: want another request id", want.ID)
	}
	return have, nil
}

// newGroup returns the group that a request asks for, and what follows after it.
func (s *Service) newGroup(ctx context.Context, r *kinesinv1.CreateGroupRequest) (*Group, []byte, error) {
	now := s.Clock.Now()
	expires := task.Instant(r.Expires)
	if r.Expires == 0 {
		expires = now.Add(ExpiryDefault)
	}
	if expires <= now || expires > now.Add(ExpiryMax) {
		return nil, nil, refusal.Invalid("expires %s: want a time to come, within %d days", time.UnixMicro(r.Expires).UTC().Format(time.RFC3339), ExpiryMax/(24*time.Hour))
	}
	id, err := s.idFor(ctx, r.RequestId, now)
	if err != nil {
		return nil, nil, err
	}
	g := &Group{ID: id.String(), Created: now, CreatedBy: access.From(ctx).Name, Expires: expires}
	spec, n, err := s.followUps(ctx, r, g)
	if err != nil {
		return nil, nil, err
	}
	if n > TemplateBytesMax {
		return nil, nil, api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE, "the tasks that follow have %d bytes: want at most %d", n, TemplateBytesMax)
	}
	value, err := json.Marshal(spec)
	if err != nil {
		return nil, nil, err
	}
	sum := sha256.Sum256(value)
	g.Spec = sum[:]
	return g, value, nil
}

// followUps notes in a group which tasks may follow it, and returns them as they are stored, with their size.
func (s *Service) followUps(ctx context.Context, r *kinesinv1.CreateGroupRequest, g *Group) (spec Spec, size int, err error) {
	keys := map[[2]string]string{}
	for _, f := range followUpsOf(r) {
		if len(g.FollowUps) == task.GroupFollowUpsMax {
			return spec, 0, refusal.Invalid("more than %d tasks follow: want at most so many", task.GroupFollowUpsMax)
		}
		l, err := s.Tasks.CheckFollowUp(ctx, f.item)
		if err != nil {
			return spec, 0, following(f.where, err)
		}
		key := [2]string{l.Name, f.item.Key}
		if other := keys[key]; other != "" && f.item.Key != "" {
			return spec, 0, refusal.Invalid("%s: key %q is that of %s, too", f.where, f.item.Key, other)
		}
		keys[key] = f.where
		raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(f.item)
		if err != nil {
			return spec, 0, err
		}
		if len(g.FollowUps) == 0 {
			g.ThenRef = l.Ref
		}
		switch {
		case f.edge == task.Then && len(spec.Then) == 0:
			g.Then, spec.Then = l.Name, raw
		case f.edge == task.Else && len(spec.Else) == 0:
			g.Else, spec.Else = l.Name, raw
		default:
			spec.More = append(spec.More, Item{Edge: f.edge, Item: raw})
		}
		g.FollowUps = append(g.FollowUps, FollowUp{Edge: f.edge, Lambda: l.Name, Collection: f.item.Collection})
		size += len(raw)
	}
	if len(g.FollowUps) == 0 {
		return spec, 0, refusal.Invalid("no task follows the group: want one in then, else or finally")
	}
	return spec, size, nil
}

// followUp is a task of a request that may follow, and where in the request it is.
type followUp struct {
	edge  task.Edge
	where string
	item  *kinesinv1.ScheduleItem
}

func followUpsOf(r *kinesinv1.CreateGroupRequest) (all []followUp) {
	for _, list := range []struct {
		edge  task.Edge
		items []*kinesinv1.ScheduleItem
	}{{task.Then, r.Then}, {task.Else, r.Else}, {task.Finally, r.Finally}} {
		for i, item := range list.items {
			all = append(all, followUp{list.edge, fmt.Sprintf("%s[%d]", list.edge, i), item})
		}
	}
	return all
}

func (s *Service) idFor(ctx context.Context, request []byte, now task.Instant) (task.ID, error) {
	id, err := intake.OwnRequestID(access.From(ctx).Name, request)
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

package group_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/group"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// start is 2023-11-14T22:13:20Z.
const start = task.Instant(1_700_000_000_000_000)

// tasks notes what is scheduled and cancelled. between is called when members are stored and not counted yet.
type tasks struct {
	between   func()
	added     []uint32
	cancelled []string
	full      bool // of groups
}

func (f *tasks) AddMembers(_ context.Context, of inbound.Members, items []*kinesinv1.ScheduleItem) ([]*task.Task, error) {
	rows := make([]*task.Task, len(items))
	for i := range items {
		index := of.At + uint32(i)
		f.added = append(f.added, index)
		rows[i] = &task.Task{ID: task.MemberID(of.Group, index, of.TryAt(index)), Member: &task.Member{Group: of.Group, Index: index, Try: of.TryAt(index)}}
	}
	if f.between != nil {
		f.between()
	}
	return rows, nil
}

func (*tasks) CheckFollowUp(_ context.Context, item *kinesinv1.ScheduleItem) (*catalog.Entry, error) {
	return &catalog.Entry{Lambda: task.Lambda{Name: item.Lambda, Ref: 7}}, nil
}

func (f *tasks) Cancel(_ context.Context, r *kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error) {
	f.cancelled = append(f.cancelled, r.Ids...)
	return &kinesinv1.CancelResponse{}, nil
}

func (*tasks) RowsOf(context.Context, []string) ([]inbound.Row, error) { return nil, nil }

func (*tasks) ViewRows([]task.Task) ([]*kinesinv1.Task, int) { return nil, 0 }

// A group that is sealed while members are stored does not count them, and they are cancelled.
func TestASealBesideAnAdd(t *testing.T) {
	c := clock.NewVirtual(start, 1).Process(0)
	f := &tasks{}
	s := group.NewService(group.ServiceConfig{
		Store: store.New(storemem.New(), store.Config{Clock: c}), Tasks: f, Look: func(task.ID) {}, Full: func() bool { return f.full }, Clock: c,
		PublicID: func(t *task.Task) string { return t.ID.String() },
	})
	made, err := s.CreateGroup(t.Context(), &kinesinv1.CreateGroupRequest{Then: []*kinesinv1.ScheduleItem{{Lambda: "report"}}})
	if err != nil {
		t.Fatal(err)
	}
	id := made.Group.Id
	add := func(at uint32) error {
		_, err := s.AddMembers(t.Context(), &kinesinv1.AddMembersRequest{Group: id, At: at, Items: []*kinesinv1.ScheduleItem{{}, {}}})
		return err
	}
	if err := add(0); err != nil || len(f.cancelled) > 0 {
		t.Fatal(err, f.cancelled)
	}
	f.between = func() {
		if _, err := s.SealGroup(t.Context(), &kinesinv1.SealGroupRequest{Group: id, Members: new(uint32(2))}); err != nil {
			t.Error(err)
		}
	}
	if err := add(2); !errors.Is(err, api.ErrTooLate) {
		t.Errorf("%v, want %v", err, api.ErrTooLate)
	}
	key, err := task.ParseID(id)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{task.MemberID(key, 2, 0).String(), task.MemberID(key, 3, 0).String()}; !slices.Equal(f.cancelled, want) {
		t.Errorf("cancelled %v, want %v", f.cancelled, want)
	}
	f.between = nil
	if err := add(0); err != nil || len(f.cancelled) != 2 { // made again
		t.Errorf("%v, %v", err, f.cancelled)
	}
	request, mine := task.NewID(start, 1, 2), map[string]string{}
	for _, name := range []string{"ada", "bob", "ada"} { // a request id counts for its caller alone
		ctx := access.With(t.Context(), access.Caller{Identity: access.Identity{Name: name}})
		r, err := s.CreateGroup(ctx, &kinesinv1.CreateGroupRequest{Then: []*kinesinv1.ScheduleItem{{Lambda: "report"}}, RequestId: request[:]})
		if err != nil || r.Duplicate != (mine[name] != "") || r.Duplicate && r.Group.Id != mine[name] || r.Group.Id == request.String() {
			t.Errorf("%s: %v, %v", name, r, err)
		}
		mine[name] = r.GetGroup().GetId()
	}
	for grant, want := range map[string][]string{"read:*": {mine["bob"], mine["ada"], id}, "read:bill": nil, "schedule:report": nil} {
		grants, err := access.ParseGrants([]string{grant})
		if err != nil {
			t.Fatal(err)
		}
		as := access.With(t.Context(), access.Caller{Identity: access.Identity{Grants: grants}})
		newest, more, err := s.Newest(as, 2)
		var got []string
		for _, g := range newest {
			got = append(got, g.Id)
		}
		if slices.Sort(got); err != nil || more != (len(want) > 2) || len(got) != min(2, len(want)) || slices.ContainsFunc(got, func(id string) bool { return !slices.Contains(want, id) }) {
			t.Errorf("the newest groups for %s: %v, more %v, %v, want two of %v", grant, got, more, err, want)
		}
		some, err := s.IDsThatBegin(as, id[:10]) // all begin so
		one, errOne := s.IDsThatBegin(as, id)
		if errors.Join(err, errOne) != nil || len(some) != len(want) || len(one) != min(1, len(want)) {
			t.Errorf("the groups that begin so for %s: %v and %v, %v, %v, want %v", grant, some, one, err, errOne, want)
		}
	}
	f.full = true
	if _, err := s.CreateGroup(t.Context(), &kinesinv1.CreateGroupRequest{Then: []*kinesinv1.ScheduleItem{{Lambda: "report"}}}); !errors.Is(err, api.ErrThrottled) {
		t.Errorf("one too many: %v", err)
	}
	if err := add(2); !errors.Is(err, api.ErrTooLate) || len(f.added) != 6 {
		t.Errorf("%v, added %v", err, f.added)
	}
}

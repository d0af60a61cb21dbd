package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

// follows notes what followed after groups.
type follows struct {
	mu   sync.Mutex
	seen []sdk.GroupEnd
	at   []time.Time
}

func (f *follows) handle(_ context.Context, t *sdk.Task[[]byte]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t.Group == nil {
		return sdk.Fatal(errors.New("it follows after no group"))
	}
	f.seen, f.at = append(f.seen, *t.Group), append(f.at, time.Now())
	return nil
}

func (f *follows) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.seen)
}

func items(n int) []sdk.Item {
	all := make([]sdk.Item, n)
	for i := range all {
		all[i] = sdk.Item{Lambda: "mail", Payload: fmt.Appendf(nil, "%d", i)}
	}
	return all
}

// A task follows when all members have ended, on whichever node they were added, ran and ended, and however
// they ended; and it does so within moments.
func TestATaskFollowsAfterAGroup(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			inRig(t, drivers{}, nodes, nil, func(r *rig) {
				r.lambda(admin.Lambda{Name: "mail", MaxAttempts: 2, BackoffMin: time.Second, BackoffMax: time.Second})
				r.lambda(admin.Lambda{Name: "report"})
				var f follows
				var mu sync.Mutex
				var last time.Time
				for _, p := range r.nodes {
					r.work(p, "mail", func(_ context.Context, t *sdk.Task[[]byte]) error {
						time.Sleep(time.Second)
						mu.Lock()
						last = time.Now()
						mu.Unlock()
						switch {
						case t.Member == nil:
							return sdk.Fatal(errors.New("it is no member"))
						case t.Member.Index%100 == 7:
							return errors.New("never")
						case t.Member.Index%100 == 8:
							return sdk.Fatal(errors.New("for good"))
						}
						t.SetResult(t.Member.Index)
						return nil
					}, sdk.Slots(20))
					r.work(p, "report", f.handle)
				}
				all := items(300)
				for i := range all {
					all[i].In = time.Duration(i%20) * time.Second
				}
				client := r.dial(r.nodes[nodes-1].transport)
				w, err := sdk.Group(all...).Then(sdk.Item{Lambda: "report"}).Begin(r.ctx, client)
				if err != nil {
					r.Fatal(err)
				}
				if err := w.Add(r.ctx, sdk.Item{Lambda: "mail", In: 40 * time.Second}, sdk.Item{Lambda: "mail", In: time.Minute}); err != nil {
					r.Fatal(err)
				}
				g, err := w.Seal(r.ctx)
				if err != nil || g.Members != 302 || g.State != "sealed" {
					r.Fatalf("%+v, %v", g, err)
				}
				members := 0
				for m, err := range client.GroupMembers(r.ctx, g.ID) {
					if err != nil || m.Index != members || m.Task.ID == "" {
						r.Fatalf("member %d: %+v, %v", members, m, err)
					}
					if members++; m.Index == 301 {
						if c, err := client.Cancel(r.ctx, m.Task.ID); err != nil {
							r.Fatal(c, err)
						}
					}
				}
				time.Sleep(2 * time.Minute)
				if f.count() != 1 {
					now, err := client.GetGroup(r.ctx, g.ID)
					r.Errorf("%d tasks followed: %+v, %v", f.count(), now, err)
					return
				}
				end := f.seen[0]
				want := map[sdk.State]int{sdk.StateSuccess: 295, sdk.StateDead: 3, sdk.StateFatalFailure: 3, sdk.StateCancelled: 1}
				if end.ID != g.ID || end.Members != 302 || fmt.Sprint(end.Ended) != fmt.Sprint(want) || end.Expired {
					r.Errorf("%+v, want %v", end, want)
				}
				if late := f.at[0].Sub(last); late > 100*time.Millisecond {
					r.Errorf("it followed %v after the last member", late)
				}
				results := 0
				for m, err := range end.All(r.ctx) {
					if err != nil {
						r.Fatal(err)
					}
					if m.Task.State == sdk.StateSuccess && string(m.Task.Result) == fmt.Sprint(m.Index) {
						results++
					}
				}
				if results != 295 {
					r.Errorf("%d results, want 295", results)
				}
				if g, err = r.client.GetGroup(r.ctx, g.ID); err != nil || g.State != "done" || g.FollowUp == "" || fmt.Sprint(g.Counts) != fmt.Sprint(want) {
					r.Errorf("%+v, %v", g, err)
				}
			})
		})
	}
}

// A group without members is done when it is sealed: then follows, as none of them failed, and is told of
// none.
func TestAGroupWithoutMembers(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		r.lambda(admin.Lambda{Name: "report"})
		var f follows
		r.work(r.nodes[0], "report", f.handle)
		g, err := r.client.CreateGroup(r.ctx, sdk.GroupSpec{Then: []sdk.Item{{Lambda: "report"}}, Else: []sdk.Item{{Lambda: "mail"}}})
		if err != nil {
			r.Fatal(err)
		}
		if _, err := r.client.SealGroup(r.ctx, g.ID, 1); !errors.Is(err, sdk.ErrStaleSeq) {
			r.Errorf("sealed with one member: %v", err)
		}
		if g, err = r.client.SealGroup(r.ctx, g.ID, 0); err != nil || g.Members != 0 {
			r.Errorf("%+v, %v", g, err)
		}
		time.Sleep(time.Second)
		if g, err = r.client.GetGroup(r.ctx, g.ID); err != nil || g.State != "done" || f.count() != 1 {
			r.Errorf("%+v, %v; %d followed", g, err, f.count())
		}
		other, err := r.client.CreateGroup(r.ctx, sdk.GroupSpec{Then: []sdk.Item{{Lambda: "report"}}})
		if err != nil {
			r.Fatal(err)
		}
		if _, err := r.client.AddMembers(r.ctx, other.ID, 0, items(1)); err != nil {
			r.Fatal(err)
		}
		if _, err := r.client.SealGroup(r.ctx, other.ID, 0); !errors.Is(err, sdk.ErrStaleSeq) || !strings.Contains(err.Error(), "has 1 members, not 0") {
			r.Errorf("sealed as empty: %v", err)
		}
	})
}

// A group that cannot be is refused with the reason, and nothing of it is stored.
func TestWhatAGroupRefuses(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		create := func(spec sdk.GroupSpec) string {
			g, err := r.client.CreateGroup(r.ctx, spec)
			if err != nil {
				r.Fatal(err)
			}
			return g.ID
		}
		then := sdk.GroupSpec{Then: []sdk.Item{{Lambda: "mail"}}, Expires: time.Now().Add(time.Hour)}
		sealed, open, expired := create(then), create(then), create(sdk.GroupSpec{Then: then.Then, Expires: time.Now().Add(time.Minute)})
		for _, id := range []string{sealed, open} {
			if _, err := r.client.AddMembers(r.ctx, id, 0, items(3)); err != nil {
				r.Fatal(err)
			}
		}
		if _, err := r.client.SealGroup(r.ctx, sealed, 3); err != nil {
			r.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		add := func(id string, at int, all ...sdk.Item) func() error {
			return func() error { _, err := r.client.AddMembers(r.ctx, id, at, all); return err }
		}
		one := sdk.Item{Lambda: "mail"}
		for _, c := range []struct {
			name string
			call func() error
			err  error
			says string
		}{
			{"unknown lambda of the follow-up", func() error {
				_, err := r.client.CreateGroup(r.ctx, sdk.GroupSpec{Then: []sdk.Item{{Lambda: "nope"}}})
				return err
			}, sdk.ErrUnknownLambda, `then[0]: unknown lambda "nope"`},
			{"unknown lambda of the other one", func() error {
				_, err := r.client.CreateGroup(r.ctx, sdk.GroupSpec{Then: []sdk.Item{one}, Else: []sdk.Item{{Lambda: "nope"}}})
				return err
			}, sdk.ErrUnknownLambda, `else[0]: unknown lambda "nope"`},
			{"unknown lambda after the follow-up", func() error {
				_, err := r.client.CreateGroup(r.ctx, sdk.GroupSpec{Then: []sdk.Item{{Lambda: "mail", Then: []sdk.Item{{Lambda: "nope"}}}}})
				return err
			}, sdk.ErrUnknownLambda, `then[0]: then[0]: unknown lambda "nope"`},
			{"expires too late", func() error {
				_, err := r.client.CreateGroup(r.ctx, sdk.GroupSpec{Then: []sdk.Item{one}, Expires: time.Now().AddDate(2, 0, 0)})
				return err
			}, sdk.ErrInvalid, "within 366 days"},
			{"no group", add("01a20d9f-f838-7794-bb15-c9c5ea296b81", 0, one), sdk.ErrNotFound, "there is no group"},
			{"no id", add("x", 0, one), sdk.ErrNotFound, "there is no group"},
			{"sealed", add(sealed, 3, one), sdk.ErrTooLate, "is sealed with 3 members: it gets no more"},
			{"expired", add(expired, 0, one), sdk.ErrTooLate, "is expired: it gets no more members"},
			{"seal of an expired one", func() error { _, err := r.client.SealGroup(r.ctx, expired, -1); return err }, sdk.ErrTooLate, "expired before it was sealed"},
			{"seal with another number", func() error { _, err := r.client.SealGroup(r.ctx, open, 2); return err }, sdk.ErrStaleSeq, "has 3 members, not 2"},
			{"offset too high", add(open, 4, one), sdk.ErrStaleSeq, "has 3 members: the next are added at 3, not at 4"},
			{"offset too low", add(open, 2, one, one), sdk.ErrStaleSeq, "the next are added at 3, not at 2"},
			{"another member", add(open, 1, sdk.Item{Lambda: "mail", Payload: []byte("other")}), sdk.ErrKeyConflict, "member 1 exists with another"},
			{"too many", add(open, task.GroupMembersMax, one), sdk.ErrStaleSeq, "added at 3"},
			{"unknown lambda", add(open, 3, one, sdk.Item{Lambda: "nope"}), sdk.ErrUnknownLambda, `member 4: unknown lambda "nope"`},
			{"a key", add(open, 3, one, sdk.Item{Lambda: "mail", Key: "k"}), sdk.ErrInvalid, "member 4: a member has no key"},
			{"due too late", add(open, 3, one, sdk.Item{Lambda: "mail", In: 2 * time.Hour}), sdk.ErrInvalid, "member 4: it is due after the group expires"},
		} {
			err := c.call()
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
				r.Errorf("%s: %v, want %v: %s", c.name, err, c.err, c.says)
			}
		}
		for id, want := range map[string]int{open: 3, sealed: 3, expired: 0} {
			if g, err := r.client.GetGroup(r.ctx, id); err != nil || g.Members != want {
				r.Errorf("%+v, %v; want %d members", g, err, want)
			}
			rows, err := r.nodes[0].node.store.Tasks(r.ctx, []task.ID{member(t, id, 3), member(t, id, 4)})
			if err != nil || !rows[0].ID.IsZero() || !rows[1].ID.IsZero() {
				r.Errorf("%v, %v: a refused member is stored", rows, err)
			}
		}
	})
}

func member(t *testing.T, group string, index uint32) task.ID {
	t.Helper()
	id, err := task.ParseID(group)
	if err != nil {
		t.Fatal(err)
	}
	return task.MemberID(id, index, 0)
}

// Whoever does not know what became of a call makes it again, and nothing changes: not when it was answered,
// not when members have ended since, and not when the group has.
func TestAnAddThatIsMadeAgain(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail", Retention: time.Minute})
		r.lambda(admin.Lambda{Name: "report"})
		var f follows
		runs := 0
		r.work(r.nodes[0], "mail", func(context.Context, *sdk.Task[[]byte]) error { runs++; return sdk.Fatal(errors.New("no")) }, sdk.Slots(1))
		r.work(r.nodes[0], "report", f.handle)
		g, err := r.client.CreateGroup(r.ctx, sdk.GroupSpec{Then: []sdk.Item{{Lambda: "report"}}})
		if err != nil {
			r.Fatal(err)
		}
		first, err := r.client.AddMembers(r.ctx, g.ID, 0, items(10))
		if err != nil || len(first) != 10 {
			r.Fatal(first, err)
		}
		for i, wait := range []time.Duration{0, time.Hour, 0, time.Hour} {
			time.Sleep(wait)
			if i == 2 {
				if _, err := r.client.SealGroup(r.ctx, g.ID, 10); err != nil {
					r.Fatal(err)
				}
			}
			again, err := r.client.AddMembers(r.ctx, g.ID, 0, items(10))
			if err != nil || fmt.Sprint(again) != fmt.Sprint(first) {
				r.Errorf("%d: %v, %v; want %v", i, again, err, first)
			}
		}
		if runs != 10 || f.count() != 1 {
			r.Errorf("%d runs of 10 members, %d followed", runs, f.count())
		}
		if g, err = r.client.SealGroup(r.ctx, g.ID, 10); err != nil || g.State != "done" {
			r.Errorf("%+v, %v", g, err)
		}
	})
}

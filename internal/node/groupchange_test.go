package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/feature/group"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

// A group that is cancelled gets no more members; those that wait end, those that run are told, and what
// follows in any case follows with the counts.
func TestAGroupThatIsCancelled(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			inRig(t, drivers{}, nodes, func(c *Config) { c.Shared = nodes > 1 }, func(r *rig) {
				for _, name := range []string{"mail", "report", "alarm", "tidy"} {
					r.lambda(admin.Lambda{Name: name})
				}
				var alarms, tidies, reports follows
				told := 0
				r.work(r.nodes[0], "mail", func(ctx context.Context, _ *sdk.Task[[]byte]) error {
					<-ctx.Done()
					if errors.Is(context.Cause(ctx), sdk.ErrCancelled) {
						told++
					}
					return ctx.Err()
				}, sdk.Slots(1))
				r.work(r.nodes[0], "report", reports.handle)
				r.work(r.nodes[0], "alarm", alarms.handle)
				r.work(r.nodes[nodes-1], "tidy", tidies.handle)
				spec := sdk.GroupSpec{Then: []sdk.Item{{Lambda: "report"}}, Else: []sdk.Item{{Lambda: "alarm"}}, Finally: []sdk.Item{{Lambda: "tidy"}}}
				g, err := r.client.CreateGroup(r.ctx, spec)
				if err != nil {
					r.Fatal(err)
				}
				all := items(2500)
				for i := range all[1:] {
					all[i+1].In = time.Duration(1+i%3) * 10 * time.Hour
				}
				if _, err := r.client.AddMembers(r.ctx, g.ID, 0, all); err != nil {
					r.Fatal(err)
				}
				time.Sleep(time.Minute)
				now, j, err := r.admin().Groups.Cancel(r.ctx, g.ID, admin.GroupCancelOptions{})
				if err != nil || j.Group != g.ID || now.State != "sealed" || now.Cancelled.IsZero() {
					r.Fatalf("%+v, %+v, %v", now, j, err)
				}
				if _, err := r.client.AddMembers(r.ctx, g.ID, 2500, items(1)); !errors.Is(err, sdk.ErrTooLate) || !strings.Contains(err.Error(), "is cancelled") {
					r.Errorf("a member of a group that is cancelled: %v", err)
				}
				time.Sleep(time.Minute)
				if j, err = r.admin().Jobs.Get(r.ctx, j.ID); err != nil || j.State != admin.JobDone || j.Outcomes["cancelled"] != 2499 || j.Outcomes["cancelling"] != 1 {
					r.Errorf("%+v, %v", j, err)
				}
				if told != 1 || reports.count() != 0 || alarms.count() != 1 || tidies.count() != 1 {
					r.Fatalf("%d told; %d, %d and %d followed", told, reports.count(), alarms.count(), tidies.count())
				}
				for _, end := range []sdk.GroupEnd{alarms.seen[0], tidies.seen[0]} {
					if !end.Cancelled || end.Ended[sdk.StateCancelled] != 2500 {
						r.Errorf("%+v", end)
					}
				}
				now, err = r.client.GetGroup(r.ctx, g.ID)
				if err != nil || now.State != "done" || len(now.FollowUps) != 3 || now.FollowUps[0].ID != "" || now.FollowUps[1].ID != now.FollowUp || now.FollowUps[2].ID == "" {
					r.Errorf("%+v, %v", now, err)
				}
				if _, _, err := r.admin().Groups.Cancel(r.ctx, g.ID, admin.GroupCancelOptions{}); !errors.Is(err, sdk.ErrTooLate) {
					r.Errorf("cancelled again: %v", err)
				}
			})
		})
	}
}

// A job that cancels a group seals it, also if the call that made the job died right after that.
func TestACancelWhoseCallDied(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		g, err := r.client.CreateGroup(r.ctx, sdk.GroupSpec{Finally: []sdk.Item{{Lambda: "mail", In: time.Hour}}})
		if err != nil {
			r.Fatal(err)
		}
		if _, err := r.client.AddMembers(r.ctx, g.ID, 0, []sdk.Item{{Lambda: "mail", In: time.Hour}}); err != nil {
			r.Fatal(err)
		}
		all, err := access.ParseGrants([]string{"*:*"})
		if err != nil {
			r.Fatal(err)
		}
		ctx := access.With(r.ctx, access.Caller{Identity: access.Identity{Name: "anonymous", Grants: all}})
		if _, err := r.nodes[0].node.jobs.CancelMembers(ctx, g.ID, &kinesinv1.CancelGroupRequest{}); err != nil {
			r.Fatal(err)
		}
		time.Sleep(time.Minute)
		if g, err = r.client.GetGroup(r.ctx, g.ID); err != nil || g.State != "done" || g.Cancelled.IsZero() || g.Counts[sdk.StateCancelled] != 1 {
			r.Errorf("%+v, %v", g, err)
		}
	})
}

// A process that ended a group half schedules what follows again: the one with a key is its own.
func TestAKeyedFollowUpThatIsScheduledAgain(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "report"})
		n := r.nodes[0].node
		after := &task.GroupEnd{Group: task.NewID(task.InstantOf(time.Now()), 1, 2)}
		item := &kinesinv1.ScheduleItem{Lambda: "report", Key: "daily"}
		first, err := n.inbound.FollowUp(r.ctx, item, after.Group, after, task.InstantOf(time.Now()))
		if err != nil {
			r.Fatal(err)
		}
		time.Sleep(time.Second)
		if again, err := n.inbound.FollowUp(r.ctx, item, after.Group, after, task.InstantOf(time.Now())); err != nil || again != first {
			r.Errorf("%s, %v: want %s", again, err, first)
		}
		other := &task.GroupEnd{Group: task.NewID(task.InstantOf(time.Now()), 3, 4)}
		if id, err := n.inbound.FollowUp(r.ctx, item, other.Group, other, task.InstantOf(time.Now())); err == nil {
			r.Errorf("the follow-up %s of another group has the key", id)
		}
	})
}

// The first task that follows has the id of its group, which is an hour ahead after the clock was set back.
func TestATaskFollowsAGroupOfLaterClocks(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "report"})
		after := &task.GroupEnd{Group: task.NewID(task.InstantOf(time.Now().Add(time.Hour)), 1, 2)}
		if _, err := r.nodes[0].node.inbound.FollowUp(r.ctx, &kinesinv1.ScheduleItem{Lambda: "report"}, after.Group, after, task.InstantOf(time.Now())); err != nil {
			r.Error(err)
		}
	})
}

// A task that cannot follow is refused when the group is made.
func TestWhatCannotFollowAGroup(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		one := sdk.Item{Lambda: "mail"}
		keyed := sdk.Item{Lambda: "mail", Key: "k"}
		for _, c := range []struct {
			spec sdk.GroupSpec
			err  error
			says string
		}{
			{sdk.GroupSpec{}, sdk.ErrInvalid, "no task follows the group"},
			{sdk.GroupSpec{Then: []sdk.Item{one}, Finally: []sdk.Item{one, {Lambda: "nope"}}}, sdk.ErrUnknownLambda, `finally[1]: unknown lambda "nope"`},
			{sdk.GroupSpec{Then: []sdk.Item{keyed, keyed}}, sdk.ErrInvalid, `then[1]: key "k" is that of then[0], too`},
			{sdk.GroupSpec{Finally: slices.Repeat([]sdk.Item{one}, task.GroupFollowUpsMax+1)}, sdk.ErrInvalid, "100"},
			{sdk.GroupSpec{Then: []sdk.Item{{Lambda: "mail", Payload: make([]byte, group.TemplateBytesMax)}}}, sdk.ErrTooLarge, "at most 131072"},
		} {
			if _, err := r.client.CreateGroup(r.ctx, c.spec); !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
				r.Errorf("%v, want %v: %s", err, c.err, c.says)
			}
		}
	})
}

// A call that died before the group counted its members does not keep others out: what it left is cancelled
// and does not count. A call that may still be under way is not disturbed.
func TestACallThatDiesBeforeItsMembersCount(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		r.lambda(admin.Lambda{Name: "report"})
		var f follows
		var ran []string
		r.work(r.nodes[0], "mail", func(_ context.Context, t *sdk.Task[[]byte]) error { ran = append(ran, string(t.Args)); return nil }, sdk.Slots(1))
		r.work(r.nodes[0], "report", f.handle)
		client := r.client
		g, err := client.CreateGroup(r.ctx, sdk.GroupSpec{Then: []sdk.Item{{Lambda: "report"}}})
		if err != nil {
			r.Fatal(err)
		}
		if _, err := client.AddMembers(r.ctx, g.ID, 0, items(2)); err != nil {
			r.Fatal(err)
		}
		id, err := task.ParseID(g.ID)
		if err != nil {
			r.Fatal(err)
		}
		var left []*kinesinv1.ScheduleItem
		for i := range 40 {
			left = append(left, &kinesinv1.ScheduleItem{Lambda: "mail", Payload: fmt.Append(nil, "left", i), Delay: (time.Duration(i) * 5 * time.Minute).Microseconds()})
		}
		_, err = r.nodes[0].node.inbound.AddMembers(r.ctx, inbound.Members{
			Group: id, At: 2, TryAt: func(uint32) uint32 { return 0 }, DueMax: task.InstantOf(g.Expires), Until: task.InstantOf(g.Expires),
		}, left)
		if err != nil {
			r.Fatal(err)
		}
		began := time.Now()
		ids, err := client.AddMembers(r.ctx, g.ID, 2, []sdk.Item{{Lambda: "mail", Payload: []byte("new")}, {Lambda: "mail", Payload: []byte("new")}})
		for errors.Is(err, sdk.ErrUnavailable) {
			if !strings.Contains(err.Error(), "another call adds other members to group "+g.ID+" at 2, or died") {
				r.Error(err)
			}
			ids, err = client.AddMembers(r.ctx, g.ID, 2, []sdk.Item{{Lambda: "mail", Payload: []byte("new")}, {Lambda: "mail", Payload: []byte("new")}})
		}
		if waited := time.Since(began); err != nil || len(ids) != 2 || waited < 20*time.Second || waited > time.Minute {
			r.Fatalf("%v, %v after %v", ids, err, waited)
		}
		if again, err := client.AddMembers(r.ctx, g.ID, 2, []sdk.Item{{Lambda: "mail", Payload: []byte("new")}, {Lambda: "mail", Payload: []byte("new")}}); err != nil || !slices.Equal(again, ids) {
			r.Errorf("%v, %v: want %v", again, err, ids)
		}
		if _, err := client.SealGroup(r.ctx, g.ID, 4); err != nil {
			r.Fatal(err)
		}
		time.Sleep(10 * time.Hour) // all of them would have been due
		slices.Sort(ran)
		if want := "[0 1 left0 new new]"; fmt.Sprint(ran) != want { // left0 was due before
			r.Errorf("%v ran, want %v", ran, want)
		}
		if f.count() != 1 || f.seen[0].Members != 4 || f.seen[0].Ended[sdk.StateSuccess] != 4 {
			r.Errorf("%+v", f.seen)
		}
	})
}

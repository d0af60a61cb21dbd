package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// keyed returns a step with the key k.
func keyed(payload string) sdk.Step {
	return sdk.Item{Lambda: "mail", Payload: []byte(payload), Key: "k"}.Step()
}

// A paused chain holds a follow-up with a key back, and a cancel ends it.
func TestAKeyedFollowUpIsControlled(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		var s stepLog
		r.work(r.nodes[0], "mail", s.handler)
		id, err := sdk.Chain(mail("sleep"), keyed("b").Else(mail("undo"))).Schedule(r.ctx, r.client)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := r.admin().Chains.Pause(r.ctx, id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got, want := r.chain(id), "paused: success then(scheduled else(planned))"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if _, err := r.admin().Chains.Cancel(r.ctx, id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := r.admin().Chains.Resume(r.ctx, id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got, want := r.chain(id), "ended: success then(cancelled else(success))"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// A follow-up with the key of a task before it is refused: one of the two could not be there.
func TestACycleOfKeysIsRefused(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		for _, chain := range []sdk.Steps{sdk.Chain(keyed("a"), mail("b"), keyed("c")), sdk.Chain(mail("a"), keyed("b"), keyed("c"))} {
			_, err := chain.Schedule(r.ctx, r.client)
			if !errors.Is(err, sdk.ErrInvalid) || !strings.Contains(err.Error(), `then[0].then[0]: a task before it has its lambda and its key "k": a cycle`) {
				t.Errorf("%v", err)
			}
		}
		if _, err := sdk.Chain(mail("a").Then(keyed("b")).Else(keyed("c"))).Schedule(r.ctx, r.client); err != nil {
			t.Errorf("the same key on two edges: %v", err)
		}
	})
}

// While a chain is paused its tasks show when they would be due and what they wait for, and are found by
// that.
func TestAPausedTaskShowsWhenItIsDue(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		var s stepLog
		r.work(r.nodes[0], "mail", s.handler)
		id, err := sdk.Chain(mail("sleep"), mail("b").After(time.Hour)).Schedule(r.ctx, r.client)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := r.admin().Chains.Pause(r.ctx, id); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		time.Sleep(20 * time.Minute)
		c, err := r.client.GetChain(r.ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		next, err := r.client.Get(r.ctx, c.Root.Followups[0].ID)
		if err != nil || next.Due.Before(begun) || next.Due.After(begun.Add(2*time.Hour)) || !next.Next.IsZero() {
			t.Errorf("due %v, next look %v: %v", next.Due, next.Next, err)
		}
		if !strings.Contains(next.WaitsFor.Text, "chain paused") {
			t.Errorf("it waits for %+v", next.WaitsFor)
		}
	})
}

// The time until which the tasks of a chain may start is handed on to those that come later, also while one
// runs; one that starts earlier than its own is not put off by that.
func TestAnExtensionHoldsForLaterTasks(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		var s stepLog
		r.work(r.nodes[0], "mail", s.handler)
		short := sdk.Item{Lambda: "mail", Payload: []byte("b"), In: time.Hour, StartBefore: time.Now().Add(2 * time.Hour)}.Step()
		id, err := sdk.Chain(mail("sleep"), short, mail("c").After(time.Hour)).Schedule(r.ctx, r.client)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		until := time.Now().Add(30 * 24 * time.Hour).Truncate(time.Microsecond)
		if change, err := r.admin().Chains.Extend(r.ctx, id, until); err != nil || change.Changed != 1 {
			t.Fatalf("%+v, %v", change, err)
		}
		for range 2 {
			time.Sleep(time.Hour + 11*time.Minute)
		}
		c, err := r.client.GetChain(r.ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		for one := &c.Root.Followups[0]; ; one = &one.Followups[0] {
			if got, err := r.client.Get(r.ctx, one.ID); err != nil || !got.StartBefore.Equal(until) {
				t.Errorf("%s may start before %v, want %v: %v", one.ID, got.StartBefore, until, err)
			}
			if len(one.Followups) == 0 {
				break
			}
		}
		if change, err := r.admin().Chains.Extend(r.ctx, id, until); err != nil || change.Changed > 1 {
			t.Errorf("%+v, %v", change, err)
		}
	})
}

// Lambdas are read again once for a lambda that is gone, and not for each follow-up of it.
func TestADeletedLambdaIsLookedForOnce(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		n := r.nodes[0].node
		for range 3 {
			if l, err := n.lambdaOfFollowup(r.ctx, 99); l != nil || err != nil {
				t.Fatalf("%v, %v", l, err)
			}
		}
		if !n.gone.has(99) || n.gone.has(98) {
			t.Error("it is not remembered which lambda is gone")
		}
		for ref := range uint32(goneMax + 10) {
			n.gone.add(1000 + ref)
		}
		if len(n.gone.refs) > goneMax {
			t.Errorf("%d are remembered", len(n.gone.refs))
		}
	})
}

// A task that was in no chain until its handler added to it is kept as long as one of a chain.
func TestAFirstFollowUpKeepsItsTask(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail", Retention: time.Hour})
		var s stepLog
		r.work(r.nodes[0], "mail", s.handler)
		added, err := r.client.Schedule(r.ctx, sdk.Item{Lambda: "mail", Payload: []byte("more")})
		if err != nil {
			t.Fatal(err)
		}
		alone, err := r.client.Schedule(r.ctx, sdk.Item{Lambda: "mail", Payload: []byte("alone")})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Hour)
		if got, want := r.chain(added.ID), "ended: success then(success)"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if got, err := r.client.Get(r.ctx, alone.ID); !errors.Is(err, sdk.ErrNotFound) {
			t.Errorf("another task is kept as long: %v, %v", got.State, err)
		}
	})
}

// A follow-up that replaces takes the key of a task that has ended, whatever its lambda's key retention is, and
// none of a task that lives. So does what follows a group.
func TestAFollowUpTakesTheKeyOfAnEndedTask(t *testing.T) {
	for onConflict, want := range map[sdk.Conflict]string{sdk.ConflictKeep: "held", sdk.ConflictReplace: "success"} {
		for _, lives := range []bool{false, true} {
			inRig(t, drivers{}, 1, nil, func(r *rig) {
				r.lambda(admin.Lambda{Name: "mail"})
				var s stepLog
				r.work(r.nodes[0], "mail", s.handler)
				for _, key := range []string{"k", "g"} {
					first := sdk.Item{Lambda: "mail", Payload: []byte("first"), Key: key}
					if lives {
						first.In = 24 * time.Hour
					}
					if _, err := r.client.Schedule(r.ctx, first); err != nil {
						t.Fatal(err)
					}
				}
				time.Sleep(time.Minute)
				next := sdk.Item{Lambda: "mail", Payload: []byte("next"), Key: "k", OnConflict: onConflict}
				id, err := sdk.Chain(mail("a"), next.Step()).Schedule(r.ctx, r.client)
				if err != nil {
					t.Fatal(err)
				}
				next.Key = "g"
				g, err := r.client.CreateGroup(r.ctx, sdk.GroupSpec{Then: []sdk.Item{next}})
				if err == nil {
					_, err = r.client.SealGroup(r.ctx, g.ID, 0)
				}
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				state := want
				if lives {
					state = "held"
				}
				if got := r.chain(id); got != "ended: success then("+state+")" {
					t.Errorf("%s, it lives %v: %s", onConflict, lives, got)
				}
				if g, err = r.client.GetGroup(r.ctx, g.ID); err != nil || g.State != "done" || (g.Problem == "") != (state == "success") {
					t.Errorf("%s, it lives %v: group %+v, %v", onConflict, lives, g, err)
				}
				if n := strings.Count(s.all(), "next"); n != 2 && state == "success" || n > 0 && state == "held" {
					t.Errorf("%s, it lives %v: ran %s", onConflict, lives, s.all())
				}
			})
		}
	}
}

package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
)

func keyed(payload, key string) sdk.Step {
	return sdk.Item{Lambda: "mail", Payload: []byte(payload), Key: key}.Step()
}

// A follow-up with a key is the task of that key: found by it, and one with the next step. Where another task
// holds the key, that keeps it and the chain says so.
func TestAFollowUpTakesItsKey(t *testing.T) {
	for _, n := range []int{1, 3} {
		inRig(t, drivers{}, n, nil, func(r *rig) {
			r.lambda(sdk.LambdaInfo{Name: "mail"})
			var s stepLog
			r.work(r.nodes[0], "mail", s.handler)
			holder, err := r.client.Schedule(r.ctx, sdk.Item{Lambda: "mail", Payload: []byte("held"), Key: "k2", In: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			large := strings.Repeat("x", 5000)
			id, err := sdk.Chain(mail("a").Finally(keyed("no", "k2")), keyed("b", "k1").After(10*time.Minute), keyed(large, "k3")).Schedule(r.ctx, r.client)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			got, err := r.client.Get(r.ctx, sdk.ByKey("mail", "k1"))
			if err != nil || got.State != sdk.StateScheduled || got.Chain == nil || got.Chain.Root != id {
				t.Fatalf("the task of the key: %+v, %v", got, err)
			}
			if r, err := r.client.Schedule(r.ctx, sdk.Item{Lambda: "mail", Payload: []byte("other"), Key: "k1"}); !errors.Is(err, sdk.ErrKeyConflict) {
				t.Errorf("the key of a follow-up was given away: %+v, %v", r, err)
			}
			time.Sleep(2 * time.Hour)
			if got, want := s.all(), "a b<then:success:r-a: held "+large+"<then:success:r-b:"; got != want {
				t.Errorf("%d nodes: ran %.200s", n, got)
			}
			if got, want := r.chain(id), "ended: success then(success then(success)) finally(held)"; got != want {
				t.Errorf("%s, want %s", got, want)
			}
			c, err := r.client.GetChain(r.ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			if text := c.Root.Followups[1].Error; !strings.Contains(text, string(holder.ID)) {
				t.Errorf("%q does not say which task held the key: %s", text, holder.ID)
			}
		})
	}
}

// A paused chain holds a follow-up with a key back, and a cancel ends it.
func TestAKeyedFollowUpIsControlled(t *testing.T) {
	inRig(t, drivers{}, 1, nil, func(r *rig) {
		r.lambda(sdk.LambdaInfo{Name: "mail"})
		var s stepLog
		r.work(r.nodes[0], "mail", s.handler)
		id, err := sdk.Chain(mail("sleep"), keyed("b", "k").Else(mail("undo"))).Schedule(r.ctx, r.client)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := r.client.PauseChain(r.ctx, id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if got, want := r.chain(id), "paused: success then(scheduled else(planned))"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if _, err := r.client.CancelChain(r.ctx, id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if _, err := r.client.ResumeChain(r.ctx, id); err != nil {
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
		r.lambda(sdk.LambdaInfo{Name: "mail"})
		for _, chain := range []sdk.Steps{sdk.Chain(keyed("a", "k"), mail("b"), keyed("c", "k")), sdk.Chain(mail("a"), keyed("b", "k"), keyed("c", "k"))} {
			_, err := chain.Schedule(r.ctx, r.client)
			if !errors.Is(err, sdk.ErrInvalid) || !strings.Contains(err.Error(), `then[0].then[0]: a task before it has its lambda and its key "k": a cycle`) {
				t.Errorf("%v", err)
			}
		}
		if _, err := sdk.Chain(mail("a").Then(keyed("b", "k")).Else(keyed("c", "k"))).Schedule(r.ctx, r.client); err != nil {
			t.Errorf("the same key on two edges: %v", err)
		}
	})
}

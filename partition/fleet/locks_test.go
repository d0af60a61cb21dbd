package fleet

import (
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
)

// TestSharedStateIsLocked is for the race detector: what stands behind one lock is used by goroutines that
// nothing else orders.
func TestSharedStateIsLocked(_ *testing.T) {
	m := New(Config{Rows: store.New(mem.New(), store.Config{}), Self: "a", Clock: clock.Real()})
	m.others.seen = map[string]observation{"b": {}}
	var running sync.WaitGroup
	for _, use := range []func(){
		func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.peers = nil
			m.setPeers(m.others.peers("a"))
		},
		func() { m.Peers() },
		func() { m.Presence("b") },
	} {
		for range 2 {
			running.Go(func() {
				for range 50 {
					use()
				}
			})
		}
	}
	running.Wait()
}

// TestAPauseOfEverybodySaysNothing lets a minute pass in which nobody did anything, as on a machine that was
// suspended: who wakes up first finds rows that did not change, and had not looked for a change.
func TestAPauseOfEverybodySaysNothing(t *testing.T) {
	w, a, _, _ := three(t)
	w.virtual.Advance(time.Minute)
	_ = a.round(t.Context())
	w.want(a, "a", "b", "c")
	w.pass(RenewEvery)
	w.want(a, "a", "b", "c")
}

func TestWhoIsSilentForAMomentIsNotBuried(t *testing.T) {
	o := others{seen: map[string]observation{"b": {silent: true}, "self": {silent: true}, "c": {}}}
	if rows := o.toDelete(deleteAfter-1, "self"); len(rows) != 1 || rows[0].Name != "self" {
		t.Errorf("%+v: want only the row of our own name", rows)
	}
	if rows := o.toDelete(deleteAfter, "self"); len(rows) != 2 {
		t.Errorf("%+v: want that of b too", rows)
	}
}

func TestAStrangerIsNeitherHereNorGone(t *testing.T) {
	_, a, b, _ := three(t)
	if here, gone := a.Presence("stranger"); here || gone {
		t.Errorf("here %v, gone %v", here, gone)
	}
	if here, gone := a.Presence(b.Self()); !here || gone {
		t.Errorf("of one that lives: here %v, gone %v", here, gone)
	}
}

// TestFollowsIsByTheSameMembers checks that a partition is let go only for one that lives and fires by the
// very same members.
func TestFollowsIsByTheSameMembers(t *testing.T) {
	members := []string{"a", "b"}
	m := New(Config{Self: "a", Clock: clock.Real()})
	for _, c := range []struct {
		peer Peer
		want bool
	}{
		{Peer{Process: "b", Alive: true, view: View(members)}, true},
		{Peer{Process: "b", Alive: true, view: View([]string{"a", "b", "c"})}, false},
		{Peer{Process: "b", view: View(members)}, false},
		{Peer{Process: "c", Alive: true, view: View(members)}, false},
	} {
		m.peers = []Peer{c.peer}
		if got := m.Follows("b", members); got != c.want {
			t.Errorf("%+v: %v", c.peer, got)
		}
	}
}

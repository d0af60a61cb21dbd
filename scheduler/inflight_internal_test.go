package scheduler

import (
	"bytes"
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/task"
)

// TestInFlightIsInOrder compares with a plain map: what is due comes in the order of its times, once, and
// nothing that was dropped.
func TestInFlightIsInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		left := newInFlightLimit(20)
		l, model := newInFlightSet(left), map[task.ID]task.Instant{}
		now := task.Instant(1000)
		ids := rapid.Uint64Range(1, 30)
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				var want rowKey
				for id, at := range model {
					if p := (rowKey{at, id}); want.at == 0 || p.less(want) {
						want = p
					}
				}
				if at, ok := l.next(); ok != (len(model) > 0) || at != want.at {
					t.Fatalf("next is %d (%v), want %d of %d", at, ok, want.at, len(model))
				}
				if n := int(left.left.Load()); n != 20-len(model) || len(l.byID) != len(model) {
					t.Fatalf("room for %d beside %d", n, len(model))
				}
				if len(l.queue) > 2*len(l.byID)+staleMax+1 {
					t.Fatalf("%d positions for %d tasks", len(l.queue), len(l.byID))
				}
			},
			"put": func(t *rapid.T) {
				id, at := idOf(ids.Draw(t, "id")), now+task.Instant(rapid.SampledFrom([]int{15, 15, 15, 1, 3, 40}).Draw(t, "in"))
				_, known := model[id]
				if ok := l.put(inFlightTask{id: id, checkAt: at}); ok != (known || len(model) < 20) {
					t.Fatalf("put: %v beside %d, known %v", ok, len(model), known)
				} else if ok {
					model[id] = at
				}
			},
			"drop": func(t *rapid.T) {
				id := idOf(ids.Draw(t, "id"))
				_, known := model[id]
				if l.drop(id) != known {
					t.Fatalf("drop of a task that was known: %v", known)
				}
				delete(model, id)
			},
			"time moves on": func(*rapid.T) { now += 4 },
			"due": func(t *rapid.T) {
				limit := rapid.IntRange(1, 6).Draw(t, "limit")
				var want []rowKey
				for id, at := range model {
					if at <= now {
						want = append(want, rowKey{at, id})
					}
				}
				slices.SortFunc(want, func(a, b rowKey) int {
					return cmp.Or(cmp.Compare(a.at, b.at), bytes.Compare(a.id[:], b.id[:]))
				})
				want = want[:min(limit, len(want))]
				got := l.takeDue(now, now+50, limit)
				if len(got) != len(want) {
					t.Fatalf("%d due, want %d", len(got), len(want))
				}
				for i, w := range want {
					if got[i].id != w.id || got[i].checkAt != w.at {
						t.Fatalf("due %v at %d, want %v at %d", got[i].id, got[i].checkAt, w.id, w.at)
					}
					model[w.id] = now + 50
				}
			},
		})
	})
}

package inbound

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/task"
)

func callFor(ids ...task.ID) *waitCall {
	c := &waitCall{}
	c.init(len(ids))
	for i, id := range ids {
		c.add(id, i)
	}
	return c
}

func numbered(n int) task.ID { return task.NewID(1, uint64(n), uint64(n)) }

// Calls enter and leave in any order, for ids that they share, some of them twice.
func TestWaitsTellWhoWaits(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	w := NewWaits()
	var calls []*waitCall
	for range 5000 {
		switch r.IntN(3) {
		case 0:
			ids := make([]task.ID, 1+r.IntN(6))
			for i := range ids {
				ids[i] = numbered(r.IntN(20))
			}
			c := callFor(ids...)
			if err := w.enter(anyone, c); err != nil {
				t.Fatal(err)
			}
			calls = append(calls, c)
		case 1:
			if len(calls) > 0 {
				i := r.IntN(len(calls))
				w.leave(calls[i])
				calls = slices.Delete(calls, i, i+1)
			}
		default:
			id := numbered(r.IntN(20))
			w.Ended([]task.ID{id, id})
			for _, c := range calls {
				var want []int
				for i := range c.nodes {
					if c.nodes[i].id == id {
						want = append(want, i)
					}
				}
				got := w.take(c)
				slices.Sort(got)
				if !slices.Equal(got, want) || len(c.told) != min(len(want), 1) {
					t.Fatalf("told of %v, want %v", got, want)
				}
				select {
				case <-c.told:
				default:
				}
			}
		}
	}
	for _, c := range calls {
		w.leave(c)
	}
	if len(w.of) != 0 || w.ids.Load() != 0 || w.room.Used() != 0 || w.idsRoom.Used() != 0 {
		t.Errorf("%d ids, %d counted, %d calls are left", len(w.of), w.ids.Load(), w.room.Used())
	}
}

// anyone may wait for whatever there is room for.
var anyone = access.Caller{Identity: access.Anonymous()}

// Whatever one caller waits for, another one may wait too.
func TestWaitsOfOneCallerLeaveRoom(t *testing.T) {
	t.Parallel()
	w, ids := NewWaits(), make([]task.ID, IDsMax)
	tenant := func(name string) access.Caller { return access.Caller{Identity: access.Identity{Name: name}} }
	fill := func(c access.Caller, ids ...task.ID) {
		for err := error(nil); err == nil; {
			err = w.enter(c, callFor(ids...))
		}
	}
	fill(tenant("a"), ids[0])
	fill(tenant("b"), ids...)
	if calls, waited := w.room.Used(), w.idsRoom.Used(); calls > waitCallsMax/2 || waited < waitIDsMax/3 || waited > waitIDsMax/2 {
		t.Errorf("%d calls for %d tasks", calls, waited)
	}
	if err := w.enter(tenant("c"), callFor(ids[:1]...)); err != nil {
		t.Error(err)
	}
}

func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	w := NewWaits()
	ids := make([]task.ID, IDsMax)
	for i := range ids {
		ids[i] = numbered(i)
	}
	for range waitIDsMax / IDsMax {
		if err := w.enter(anyone, callFor(ids...)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.enter(anyone, callFor(ids[0])); !errors.Is(err, api.ErrFull) {
		t.Errorf("one task too many: %v", err)
	}
	if p := w.pause(); p < 10*time.Second || p > time.Minute {
		t.Errorf("%d tasks are read again every %v", waitIDsMax, p)
	}
	w = NewWaits()
	for range waitCallsMax {
		if err := w.enter(anyone, callFor(ids[0])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.enter(anyone, callFor(ids[0])); !errors.Is(err, api.ErrFull) {
		t.Errorf("one call too many: %v", err)
	}
	if p := w.pause(); p < waitLookMax || p > 3*waitLookMax {
		t.Errorf("%d tasks are read again every %v", waitCallsMax, p)
	}
}

// BenchmarkEndThatManyWaitFor has 30 calls that wait for the same 1,000 tasks.
func BenchmarkEndThatManyWaitFor(b *testing.B) {
	w := NewWaits()
	ids := make([]task.ID, IDsMax)
	for i := range ids {
		ids[i] = numbered(i)
	}
	var calls []*waitCall
	for range 30 {
		calls = append(calls, callFor(ids...))
		_ = w.enter(anyone, calls[len(calls)-1])
	}
	i := 0
	for b.Loop() {
		i++
		w.Ended(ids[i%len(ids) : i%len(ids)+1])
		for _, c := range calls {
			w.take(c)
		}
	}
}

package scheduler

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/internal/limit"
	"github.com/kinesin-io/kinesin/task"
)

// TestSlotsFollowWhatIsInFlight puts, drops, postpones and forgets tasks of two partitions in any order,
// while their group comes and goes and rounds take slots: the group always counts those that hold one, and
// what the running rounds have taken.
func TestSlotsFollowWhatIsInFlight(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := newInFlightLimit(3)
		groups := []*exclusiveGroup{nil, {Slots: limit.NewSlots()}, {Slots: limit.NewSlots()}}
		sets := []*inFlightSet{newInFlightSet(most), newInFlightSet(most)}
		for i, s := range sets {
			s.slots.waiter = limit.SlotWaiter{Class: uint8(i), Wake: func() {}}
		}
		set := rapid.SampledFrom(sets)
		id := rapid.Custom(func(t *rapid.T) task.ID { return idOf(rapid.Uint64Range(1, 12).Draw(t, "id")) })
		at := rapid.Custom(func(t *rapid.T) task.Instant { return task.Instant(rapid.IntRange(1, 50).Draw(t, "at")) })
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				s := set.Draw(t, "set")
				one := inFlightTask{id: id.Draw(t, "id"), checkAt: at.Draw(t, "check"), wakeRowAt: at.Draw(t, "row"), holdsSlot: rapid.Bool().Draw(t, "holds")}
				_, known := s.byID[one.id]
				full := most.left.Load() <= 0
				if ok := s.put(one); !ok && (known || !full || one.holdsSlot && s.slots.isLimited()) {
					t.Fatal("forgotten, though there is room or it holds a slot")
				}
			},
			"drop":     func(t *rapid.T) { set.Draw(t, "set").drop(id.Draw(t, "id")) },
			"postpone": func(t *rapid.T) { set.Draw(t, "set").postpone(id.Draw(t, "id"), at.Draw(t, "until")) },
			"due":      func(t *rapid.T) { set.Draw(t, "set").takeDue(at.Draw(t, "now"), 60, 3) },
			"all":      func(t *rapid.T) { set.Draw(t, "set").checkAll(at.Draw(t, "now")) },
			"clear": func(t *rapid.T) {
				s := set.Draw(t, "set")
				s.clear()
			},
			"scan": func(t *rapid.T) {
				s := set.Draw(t, "set")
				s.beginScan()
				seen := id.Draw(t, "seen")
				s.noteScanned(&task.Task{ID: seen, WakeRow: task.WakeRow{At: at.Draw(t, "row")}})
				s.endScan(rowKey{}, rowKey{at: at.Draw(t, "to")})
			},
			"take": func(t *rapid.T) {
				s := set.Draw(t, "set")
				if u := &s.slots; u.group != nil {
					u.taken += u.group.Take(&u.waiter, rapid.IntRange(1, 3).Draw(t, "want"))
					u.asked = true
				}
			},
			"rest": func(t *rapid.T) { set.Draw(t, "set").slots.rest() },
			"join": func(t *rapid.T) { set.Draw(t, "set").slots.join(rapid.SampledFrom(groups).Draw(t, "group")) },
			"": func(t *rapid.T) {
				var want [3][task.PrioritiesMax]int
				for i, s := range sets {
					for k, g := range groups {
						if s.slots.group != g {
							continue
						}
						for _, one := range s.byID {
							if one.holdsSlot {
								want[k][i]++
							}
						}
						want[k][i] += s.slots.taken
					}
				}
				for k, g := range groups[1:] {
					if got := g.Used(); got != want[k+1] {
						t.Fatalf("group %d counts %v, want %v", k, got, want[k+1])
					}
				}
			},
		})
	})
}

func TestWhatHoldsASlotIsRememberedWithoutRoom(t *testing.T) {
	most := newInFlightLimit(1)
	s := newInFlightSet(most)
	s.slots.waiter.Wake = func() {}
	s.slots.join(&exclusiveGroup{Slots: limit.NewSlots()})
	for n := range uint64(3) {
		if !s.put(inFlightTask{id: idOf(n), checkAt: 1, holdsSlot: true}) {
			t.Errorf("task %d is forgotten", n)
		}
	}
	if s.put(inFlightTask{id: idOf(4), checkAt: 1}) {
		t.Error("one that holds none has room")
	}
	if got := s.slots.group.Used(); got[0] != 3 || most.left.Load() != -2 {
		t.Errorf("%d counted, room for %d", got[0], most.left.Load())
	}
	for n := range uint64(3) {
		s.drop(idOf(n))
	}
	if got := s.slots.group.Used(); got[0] != 0 || most.left.Load() != 1 {
		t.Errorf("then %d counted, room for %d", got[0], most.left.Load())
	}
}

// A hint that was overtaken says that a task waits, which runs again since.
func TestALateHintFreesNoSlot(t *testing.T) {
	s := newInFlightSet(newInFlightLimit(10))
	row := task.Task{ID: idOf(1), Seq: 7, WakeRow: task.WakeRow{At: 50, Seq: 1}}
	s.put(inFlightTask{id: row.ID, wakeRowAt: 50, wakeRowSeq: 1, seq: 8, holdsSlot: true})
	for _, c := range []struct {
		seq, place uint64
		older      bool
	}{{7, 1, true}, {8, 1, false}, {9, 1, false}, {7, 2, false}} {
		row.Seq, row.WakeRow.Seq = c.seq, c.place
		if got := s.isOlder(&row); got != c.older {
			t.Errorf("seq %d of place %d is older: %v", c.seq, c.place, got)
		}
	}
}

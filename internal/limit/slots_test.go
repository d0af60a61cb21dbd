package limit_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/internal/limit"
	"github.com/kinesin-io/kinesin/task"
)

// taker takes slots for tasks that wait, whenever it is woken.
type taker struct {
	limit.SlotWaiter

	waits, has int
	woken      bool
}

func newTaker(class uint8) *taker {
	t := &taker{SlotWaiter: limit.SlotWaiter{Class: class}}
	t.Wake = func() { t.woken = true }
	return t
}

func (t *taker) take(s *limit.Slots) {
	t.woken = false
	n := s.Take(&t.SlotWaiter, t.waits)
	t.waits, t.has = t.waits-n, t.has+n
}

// serve lets all that are woken take, until nobody is.
func serve(t interface{ Fatal(args ...any) }, s *limit.Slots, all []*taker) {
	for range 10_000 {
		i := slices.IndexFunc(all, func(one *taker) bool { return one.woken })
		if i < 0 {
			return
		}
		all[i].take(s)
	}
	t.Fatal("they wake each other for ever")
}

// TestSlotsAreUsedAndNeverExceeded has tasks of several priorities come and end in any order: no limit is
// exceeded, no slot stays free that somebody waits for, and a higher priority goes first.
func TestSlotsAreUsedAndNeverExceeded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := limit.NewSlots()
		var limits limit.Concurrency
		var weights []uint16
		if rapid.Bool().Draw(t, "weighted") {
			weights = []uint16{8, 3, 1}
		}
		all := make([]*taker, 6)
		for i := range all {
			all[i] = newTaker(uint8(i / 2))
		}
		one := rapid.SampledFrom(all)
		most := rapid.IntRange(0, 6)
		over := 0 // that a limit was lowered to, or that were found running
		t.Repeat(map[string]func(*rapid.T){
			"come": func(t *rapid.T) {
				k := one.Draw(t, "who")
				k.waits += rapid.IntRange(1, 5).Draw(t, "tasks")
				k.take(s)
			},
			"leave": func(t *rapid.T) {
				k := one.Draw(t, "who")
				k.waits = 0
				k.take(s)
			},
			"end": func(t *rapid.T) {
				k := one.Draw(t, "who")
				if k.has > 0 {
					n := rapid.IntRange(1, k.has).Draw(t, "tasks")
					k.has -= n
					s.Free(k.Class, n)
				}
			},
			"found": func(t *rapid.T) {
				k := one.Draw(t, "who")
				k.has++
				s.Use(k.Class, 1)
				over = 100
			},
			"limit": func(t *rapid.T) {
				limits.All = most.Draw(t, "all")
				limits.Priorities[1] = most.Draw(t, "normal")
				limits.Priorities[2] = most.Draw(t, "low")
				s.Set(limits, weights)
				over = 100
			},
			"": func(t *rapid.T) {
				serve(t, s, all)
				total, used := 0, [task.PrioritiesMax]int{}
				for _, k := range all {
					total, used[k.Class] = total+k.has, used[k.Class]+k.has
				}
				if used != s.Used() {
					t.Fatalf("counts %v, and there are %v", s.Used(), used)
				}
				free := func(class uint8) bool {
					return (limits.All == 0 || total < limits.All) && (limits.Priorities[class] == 0 || used[class] < limits.Priorities[class])
				}
				for _, k := range all {
					if k.waits > 0 && free(k.Class) {
						t.Fatalf("%d of priority %d wait, and %d of %v run of limits %v", k.waits, k.Class, total, used, limits)
					}
				}
				isOver := limits.All > 0 && total > limits.All
				for c, limit := range limits.Priorities {
					isOver = isOver || limit > 0 && used[c] > limit
				}
				if isOver && over == 0 {
					t.Fatalf("%v run, and the limits are %v", used, limits)
				}
				if !isOver {
					over = 0
				}
				if s.Waits() != slices.ContainsFunc(all, func(k *taker) bool { return k.waits > 0 }) {
					t.Fatal("who waits is not known")
				}
			},
		})
	})
}

// runAll has one slot freed after the other while all priorities wait, and returns how many each got.
func runAll(s *limit.Slots, all []*taker, slots int) (got [3]int) {
	for _, k := range all {
		k.waits = 1000
		k.take(s)
	}
	for range slots {
		before := [3]int{all[0].has, all[1].has, all[2].has}
		i := slices.IndexFunc(all, func(k *taker) bool { return k.has > 0 })
		all[i].has--
		before[i]--
		s.Free(all[i].Class, 1)
		for _, k := range slices.Backward(all) { // the lower ones ask first
			k.take(s)
		}
		for i, k := range all {
			got[i] += k.has - before[i]
		}
	}
	return got
}

func TestFreedSlotsGoToHigherPrioritiesFirst(t *testing.T) {
	s, all := limit.NewSlots(), []*taker{newTaker(0), newTaker(1), newTaker(2)}
	s.Set(limit.Concurrency{All: 4}, nil)
	if got := runAll(s, all, 100); got != [3]int{100, 0, 0} {
		t.Errorf("%v", got)
	}
}

func TestFreedSlotsAreSharedByWeights(t *testing.T) {
	s, all := limit.NewSlots(), []*taker{newTaker(0), newTaker(1), newTaker(2)}
	s.Set(limit.Concurrency{All: 4}, []uint16{8, 3, 1})
	got := runAll(s, all, 1200)
	for i, want := range []int{800, 300, 100} {
		if got[i] < want-10 || got[i] > want+10 {
			t.Errorf("%v, want about 800, 300 and 100", got)
			break
		}
	}
}

// A priority that has all slots of its own does not keep the others from those of the lambda.
func TestAFullPriorityLeavesTheRestToOthers(t *testing.T) {
	s, high, low := limit.NewSlots(), newTaker(0), newTaker(2)
	s.Set(limit.Concurrency{All: 5, Priorities: [task.PrioritiesMax]int{2}}, nil)
	high.waits, low.waits = 10, 10
	high.take(s)
	low.take(s)
	if high.has != 2 || low.has != 3 {
		t.Errorf("high has %d slots, low %d, want 2 and 3", high.has, low.has)
	}
}

func TestAnEndIsAwaitedWhereASlotIsLacking(t *testing.T) {
	s, w := limit.NewSlots(), &limit.SlotWaiter{Wake: func() {}}
	s.Set(limit.Concurrency{All: 2}, nil)
	wants := func(step string, want bool) {
		t.Helper()
		if got := s.IsAwaited(0); got != want {
			t.Errorf("%s: awaited: %v, want %v", step, got, want)
		}
	}
	s.Take(w, 1)
	wants("a slot is left", false)
	s.Take(w, 1)
	wants("none is left", true)
	s.Set(limit.Concurrency{}, nil)
	wants("there is no limit", false)
}

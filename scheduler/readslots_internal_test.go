package scheduler

import (
	"testing"
)

func newRequest() *slotRequest { return &slotRequest{wake: make(chan struct{}, 1)} }

func (t *slotRequest) woken() bool {
	select {
	case <-t.wake:
		return true
	default:
		return false
	}
}

// all takes the slots that there are for those who ask for the first time.
func (q *readSlots) all(again bool) (taken []*slotRequest) {
	for {
		t := newRequest()
		if !q.take(t, false, again) {
			q.withdraw(t)
			return taken
		}
		taken = append(taken, t)
	}
}

func TestReadSlotsAreBoundedInEachPool(t *testing.T) {
	q := newReadSlots()
	if n := len(q.all(false)); n != readSlotsMax {
		t.Errorf("%d slots, want %d", n, readSlotsMax)
	}
	// Those that fail have theirs, and no more, whatever the others do.
	if n := len(q.all(true)); n != retrySlotsMax {
		t.Errorf("%d slots of those that failed, want %d", n, retrySlotsMax)
	}
}

func TestReadSlotsGoToTheNewThenInOrder(t *testing.T) {
	q := newReadSlots()
	taken := q.all(false)
	first, second, fresh, gone := newRequest(), newRequest(), newRequest(), newRequest()
	for _, w := range []*slotRequest{gone, first, second, fresh} {
		if q.take(w, w == fresh, false) {
			t.Fatal("more slots than there are")
		}
		q.park(w)
	}
	q.withdraw(gone)
	q.unpark(second) // it woke up for another reason, and keeps its place
	q.park(second)
	for range readSlotsKept {
		q.done(taken[0])
		taken = taken[1:]
	}
	for _, want := range []*slotRequest{fresh, first, second} {
		q.done(taken[0])
		taken = taken[1:]
		for name, w := range map[string]*slotRequest{"first": first, "second": second, "fresh": fresh, "gone": gone} {
			if woken := w.woken(); woken != (w == want) {
				t.Errorf("%s was woken: %v", name, woken)
			}
		}
		if !q.take(want, false, false) {
			t.Error("no slot for who was woken")
		}
	}
}

// A slot that its waiter does not want any more goes to the next one.
func TestASlotThatIsNotWantedIsOfferedOn(t *testing.T) {
	q := newReadSlots()
	taken := q.all(false)
	first, second := newRequest(), newRequest()
	for _, w := range []*slotRequest{first, second} {
		q.take(w, false, false)
		q.park(w)
	}
	for _, w := range taken[:readSlotsKept+1] {
		q.done(w)
	}
	if !first.woken() || second.woken() {
		t.Fatal("want the first one woken")
	}
	q.unpark(first)
	q.withdraw(first)
	if !second.woken() {
		t.Error("the slot is offered to nobody")
	}
}

// A loop that never idles is in no line, and gets a slot when it has waited longest.
func TestABusyLoopGetsASlot(t *testing.T) {
	q := newReadSlots()
	taken := q.all(false)
	busy, idle := newRequest(), newRequest()
	q.take(busy, false, false)
	q.take(idle, false, false)
	q.park(idle)
	q.done(taken[0])
	q.unpark(idle)
	if late := newRequest(); idle.woken() || q.take(late, false, false) && q.take(newRequest(), false, false) {
		t.Error("somebody else got the slot that is kept")
	}
	q.done(taken[1])
	if !q.take(busy, false, false) {
		t.Error("no slot for the one that has waited longest")
	}
}

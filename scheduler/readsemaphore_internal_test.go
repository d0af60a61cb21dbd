package scheduler

import (
	"testing"
)

func newRequest() *readRequest { return &readRequest{wake: make(chan struct{}, 1)} }

func (t *readRequest) woken() bool {
	select {
	case <-t.wake:
		return true
	default:
		return false
	}
}

// all makes the requests that may read, for those who ask for the first time.
func (q *readSemaphore) all(again bool) (taken []*readRequest) {
	for {
		t := newRequest()
		if !q.acquire(t, false, again) {
			q.withdraw(t)
			return taken
		}
		taken = append(taken, t)
	}
}

func TestReadsAreBoundedInEachPool(t *testing.T) {
	q := newReadSemaphore()
	if n := len(q.all(false)); n != readsMax {
		t.Errorf("%d reads, want %d", n, readsMax)
	}
	// Those that fail have theirs, and no more, whatever the others do.
	if n := len(q.all(true)); n != retryReadsMax {
		t.Errorf("%d reads of those that failed, want %d", n, retryReadsMax)
	}
}

func TestReadsGoToTheNewThenInOrder(t *testing.T) {
	q := newReadSemaphore()
	taken := q.all(false)
	first, second, fresh, gone := newRequest(), newRequest(), newRequest(), newRequest()
	for _, w := range []*readRequest{gone, first, second, fresh} {
		if q.acquire(w, w == fresh, false) {
			t.Fatal("more reads than there may be")
		}
		q.park(w)
	}
	q.withdraw(gone)
	q.unpark(second) // it woke up for another reason, and keeps its place
	q.park(second)
	for range readsKept {
		q.release(taken[0])
		taken = taken[1:]
	}
	for _, want := range []*readRequest{fresh, first, second} {
		q.release(taken[0])
		taken = taken[1:]
		for name, w := range map[string]*readRequest{"first": first, "second": second, "fresh": fresh, "gone": gone} {
			if woken := w.woken(); woken != (w == want) {
				t.Errorf("%s was woken: %v", name, woken)
			}
		}
		if !q.acquire(want, false, false) {
			t.Error("no read for who was woken")
		}
	}
}

// A turn that its waiter does not want any more goes to the next one.
func TestATurnThatIsNotWantedIsOfferedOn(t *testing.T) {
	q := newReadSemaphore()
	taken := q.all(false)
	first, second := newRequest(), newRequest()
	for _, w := range []*readRequest{first, second} {
		q.acquire(w, false, false)
		q.park(w)
	}
	for _, w := range taken[:readsKept+1] {
		q.release(w)
	}
	if !first.woken() || second.woken() {
		t.Fatal("want the first one woken")
	}
	q.unpark(first)
	q.withdraw(first)
	if !second.woken() {
		t.Error("the turn is offered to nobody")
	}
}

// A loop that never idles is in no line, and may read when it has waited longest.
func TestABusyLoopGetsItsTurn(t *testing.T) {
	q := newReadSemaphore()
	taken := q.all(false)
	busy, idle := newRequest(), newRequest()
	q.acquire(busy, false, false)
	q.acquire(idle, false, false)
	q.park(idle)
	q.release(taken[0])
	q.unpark(idle)
	if late := newRequest(); idle.woken() || q.acquire(late, false, false) && q.acquire(newRequest(), false, false) {
		t.Error("somebody else got the turn that is kept")
	}
	q.release(taken[1])
	if !q.acquire(busy, false, false) {
		t.Error("no turn for the one that has waited longest")
	}
}

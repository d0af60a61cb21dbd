package scheduler

import (
	"testing"
)

func newTurn() *turn { return &turn{poke: make(chan struct{}, 1)} }

func (t *turn) poked() bool {
	select {
	case <-t.poke:
		return true
	default:
		return false
	}
}

// all takes the turns that there are for those who ask for the first time.
func (q *turns) all(again bool) (taken []*turn) {
	for {
		t := newTurn()
		if !q.take(t, false, again) {
			q.leave(t)
			return taken
		}
		taken = append(taken, t)
	}
}

func TestTurnsAreBoundedInEachLane(t *testing.T) {
	var q turns
	q.init()
	if n := len(q.all(false)); n != turnsMax {
		t.Errorf("%d turns, want %d", n, turnsMax)
	}
	// Those that fail have theirs, and no more, whatever the others do.
	if n := len(q.all(true)); n != turnsAgainMax {
		t.Errorf("%d turns of those that failed, want %d", n, turnsAgainMax)
	}
}

func TestTurnsGoToTheNewThenInOrder(t *testing.T) {
	var q turns
	q.init()
	taken := q.all(false)
	first, second, fresh, gone := newTurn(), newTurn(), newTurn(), newTurn()
	for _, w := range []*turn{gone, first, second, fresh} {
		if q.take(w, w == fresh, false) {
			t.Fatal("more turns than there are")
		}
		q.rest(w)
	}
	q.leave(gone)
	q.rise(second) // it woke up for another reason, and keeps its place
	q.rest(second)
	for range turnsKept {
		q.done(taken[0])
		taken = taken[1:]
	}
	for _, want := range []*turn{fresh, first, second} {
		q.done(taken[0])
		taken = taken[1:]
		for name, w := range map[string]*turn{"first": first, "second": second, "fresh": fresh, "gone": gone} {
			if poked := w.poked(); poked != (w == want) {
				t.Errorf("%s was poked: %v", name, poked)
			}
		}
		if !q.take(want, false, false) {
			t.Error("no turn for who was poked")
		}
	}
}

// What one was poked for goes to the next one if it is not wanted any more.
func TestATurnThatIsNotWantedIsOfferedOn(t *testing.T) {
	var q turns
	q.init()
	taken := q.all(false)
	first, second := newTurn(), newTurn()
	for _, w := range []*turn{first, second} {
		q.take(w, false, false)
		q.rest(w)
	}
	for _, w := range taken[:turnsKept+1] {
		q.done(w)
	}
	if !first.poked() || second.poked() {
		t.Fatal("want the first one poked")
	}
	q.rise(first)
	q.leave(first)
	if !second.poked() {
		t.Error("the turn is offered to nobody")
	}
}

// A loop that never idles is in no line, and gets a turn when it has waited longest.
func TestABusyLoopGetsATurn(t *testing.T) {
	var q turns
	q.init()
	taken := q.all(false)
	busy, idle := newTurn(), newTurn()
	q.take(busy, false, false)
	q.take(idle, false, false)
	q.rest(idle)
	q.done(taken[0])
	q.rise(idle)
	if late := newTurn(); idle.poked() || q.take(late, false, false) && q.take(newTurn(), false, false) {
		t.Error("somebody else got the turn that is kept")
	}
	q.done(taken[1])
	if !q.take(busy, false, false) {
		t.Error("no turn for the one that has waited longest")
	}
}

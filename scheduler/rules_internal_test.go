package scheduler

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

func TestTheInboxIsBounded(t *testing.T) {
	l := &loop{wake: make(chan struct{}, 1)}
	for n := range hintsMax + 10 {
		l.hint(&task.Task{WakeRow: task.WakeRow{At: at - task.Instant(n)}}, hintAdded)
	}
	if got, missed := len(l.inbox.hints), l.inbox.missed; got != hintsMax || missed != at-hintsMax-9 {
		t.Errorf("%d hints, the earliest that was missed is %d; want %d and %d", got, at-missed, hintsMax, hintsMax+9)
	}
}

// A full look-ahead has left rows out behind its high-water mark: it may not claim to know what is further
// away.
func TestAFullBufferIsNotWidened(t *testing.T) {
	c := clock.NewVirtual(at, 1).Process(0)
	l := &loop{shared: &shared{Config: Config{Clock: c, Window: 10 * time.Second}}, buffer: newBuffer(2)}
	l.buffer.extend(endOf(at.Add(time.Second)))
	l.widen(at)
	if !l.buffer.covers(at.Add(10 * time.Second)) {
		t.Error("not widened, though it has room")
	}
	for n := range uint64(3) {
		l.buffer.add(entry{at: at.Add(time.Duration(n) * time.Second), id: idOf(n)})
	}
	if l.widen(at); l.buffer.covers(at.Add(3 * time.Second)) {
		t.Error("a full buffer covers what it has left out")
	}
}

func TestASignalIsRenewedOnlyAfterItFired(t *testing.T) {
	waiting, fired := make(chan struct{}), make(chan struct{})
	close(fired)
	next := func() <-chan struct{} { return waiting }
	if got, did := renew(fired, next); !did || got != waiting {
		t.Error("a signal that fired is lost")
	}
	if got, did := renew(waiting, func() <-chan struct{} { return fired }); did || got != waiting {
		t.Error("a signal that did not fire was replaced")
	}
	if _, did := renew(nil, next); did {
		t.Error("a signal that never fires fired")
	}
}

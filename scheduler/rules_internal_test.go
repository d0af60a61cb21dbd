package scheduler

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

func TestTheInboxIsBounded(t *testing.T) {
	l := &loop{poke: make(chan struct{}, 1)}
	for n := range hintRowsMax + 10 {
		l.hint(&task.Task{WakeRow: task.WakeRow{At: at - task.Instant(n)}}, hintAdded)
	}
	if got, missed := len(l.inbox.hints), l.inbox.missed; got != hintRowsMax || missed != at-hintRowsMax-9 {
		t.Errorf("%d hints, the earliest that was missed is %d; want %d and %d", got, at-missed, hintRowsMax, hintRowsMax+9)
	}
}

// A full look-ahead has left rows out behind its horizon: it may not claim to know what is further away.
func TestAFullSetIsNotWidened(t *testing.T) {
	c := clock.NewVirtual(at, 1).Process(0)
	l := &loop{s: &Scheduler{Config: Config{Clock: c, Window: 10 * time.Second}}, ahead: newLookahead(2)}
	l.ahead.reach(through(at.Add(time.Second)))
	l.widen(at)
	if !l.ahead.covers(at.Add(10 * time.Second)) {
		t.Error("not widened, though it has room")
	}
	for n := range uint64(3) {
		l.ahead.add(entry{at: at.Add(time.Duration(n) * time.Second), id: idOf(n)})
	}
	if l.widen(at); l.ahead.covers(at.Add(3 * time.Second)) {
		t.Error("a full set covers what it has left out")
	}
}

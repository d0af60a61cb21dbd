package sim

import (
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
	"github.com/kinesin-io/kinesin/test/checker"
)

func TestOnlyOnceRefuses(t *testing.T) {
	began := checker.Event{Kind: checker.Started, Task: "t", Attempt: 1}
	again := checker.Event{Kind: checker.Ended, Task: "t", Outcome: checker.Snooze}
	if found := onlyOnce([]checker.Event{began, again, began, {Kind: checker.Reported, Task: "t", Attempt: 2}}); len(found) > 0 {
		t.Errorf("a snooze: %q", found)
	}
	for name, events := range map[string][]checker.Event{
		"twice":     {began, {Kind: checker.Ended, Task: "t", Outcome: checker.OK}, began},
		"lost":      {began, {Kind: checker.Reported, Task: "t", Attempt: 1, Lost: 1}},
		"uncounted": {began, again, began, {Kind: checker.Reported, Task: "t", Attempt: 1}},
	} {
		if found := onlyOnce(events); len(found) != 1 || !strings.HasPrefix(found[0], "I8") {
			t.Errorf("%s: %q, want one breach of I8", name, found)
		}
	}
}

func TestLateIsNoticed(t *testing.T) {
	for late, want := range map[time.Duration]int{lateMax: 0, lateMax + 2*time.Minute: 1} {
		var l ledger
		sent := row(1, task.Enqueued)
		sent.Task.Due = task.InstantOf(time.Now().Add(-late + time.Second))
		l.wrote(sent, nil)
		if found := l.checkLate(time.Second); len(found) != want {
			t.Errorf("%v late: %q, want %d breaches", late, found, want)
		}
	}
}

func TestWorkIsBounded(t *testing.T) {
	var writes, messages ledger
	for range writesMax + 1 {
		writes.wrote(row(1, task.Enqueued), store.ErrConflict)
	}
	messages.wrote(row(1, task.Enqueued), nil)
	for range messagesPerRunMax + 1 {
		messages.sent(message(1, task.Enqueued))
	}
	for want, l := range map[string]*ledger{"took 9 writes": &writes, "took 3 messages": &messages} {
		if found := l.checkWork(0); len(found) != 1 || !strings.Contains(found[0], want) {
			t.Errorf("%q, want %q", found, want)
		}
	}
}

package sim

import (
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

func row(seq uint64, s task.State) *store.Op {
	return &store.Op{Kind: store.ReplaceTask, Task: task.Task{ID: task.ID{1}, Seq: seq, State: s}}
}

func message(seq uint64, s task.State) *queue.Message {
	return &queue.Message{Task: task.Task{ID: task.ID{1}, Seq: seq, State: s}}
}

func TestLedgerRefuses(t *testing.T) {
	for name, broken := range map[string]func(*ledger) []string{
		"I17: task":              func(l *ledger) []string { return l.wrote(row(2, task.Claimed), nil) },
		"I17: a message of task": func(l *ledger) []string { return l.sent(message(3, task.Enqueued)) },
		"goes from seq 2 to 4": func(l *ledger) []string {
			l.wrote(row(4, task.Claimed), nil)
			_, breaches := l.edges()
			return breaches
		},
		"was success at seq 4, and then enqueued": func(l *ledger) []string {
			l.wrote(row(3, task.Claimed), nil)
			l.wrote(row(4, task.Success), nil)
			l.wrote(row(5, task.Enqueued), nil)
			_, breaches := l.edges()
			return breaches
		},
	} {
		var l ledger
		if found := append(l.wrote(row(2, task.Enqueued), nil), l.sent(message(2, task.Enqueued))...); len(found) > 0 {
			t.Fatal(found)
		}
		if found := broken(&l); len(found) != 1 || !strings.Contains(found[0], name) {
			t.Errorf("%q, want one breach with %q", found, name)
		}
	}
}

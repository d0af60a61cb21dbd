package sim

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// ledger holds what was written and sent of each task.
type ledger struct {
	gaps bool // a write may be missing: the process was killed after its commit and before it could be noted

	mu       sync.Mutex // guards all below
	accounts map[task.ID]*account
}

type account struct {
	rows     map[uint64]task.State // of the task row, by seq
	attempts uint32
	late     time.Duration // from when it was due until it was sent or claimed first
	sent     bool
	writes   int // that came to the rows, refused ones too: a service charges for both
	messages int
}

func (l *ledger) account(id task.ID) *account {
	a := l.accounts[id]
	if a == nil {
		a = &account{rows: map[uint64]task.State{}}
		if l.accounts == nil {
			l.accounts = map[task.ID]*account{}
		}
		l.accounts[id] = a
	}
	return a
}

// goes notes when a task was first on its way to a worker.
func (a *account) goes(t *task.Task) {
	if !a.sent {
		a.sent, a.late = true, time.Since(t.Due.Time())
	}
}

// wrote notes a write of a task, and says what was wrong with it.
func (l *ledger) wrote(op *store.Op, result error) (breaches []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &op.Task
	a := l.account(t.ID)
	a.writes++
	if result != nil || op.Kind != store.PutTask && op.Kind != store.ReplaceTask {
		return nil
	}
	if before, twice := a.rows[t.Seq]; twice {
		breaches = append(breaches, fmt.Sprintf("I17: task %s was written as %s at seq %d, and then as %s", t.ID, before, t.Seq, t.State))
	}
	a.rows[t.Seq] = t.State
	if t.State == task.Enqueued || t.State == task.Claimed {
		a.goes(t)
	}
	a.attempts = max(a.attempts, t.Attempt)
	return breaches
}

// sent notes a message, and says what was wrong with it.
func (l *ledger) sent(m *queue.Message) (breaches []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &m.Task
	a := l.account(t.ID)
	a.messages++
	a.goes(t)
	state, written := a.rows[t.Seq]
	if written && state == task.Enqueued || t.State == task.Scheduled || !written && l.gaps { // the latter holds its task (ADR 19)
		return nil
	}
	return []string{fmt.Sprintf("I17: a message of task %s for seq %d, whose row is %s", t.ID, t.Seq, state)}
}

// edges are all changes of state of task rows, and what was wrong with them.
func (l *ledger) edges() (taken, breaches []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range slices.SortedFunc(maps.Keys(l.accounts), func(x, y task.ID) int { return bytes.Compare(x[:], y[:]) }) {
		a := l.accounts[id]
		from, before := task.Unknown, uint64(0)
		for _, seq := range slices.Sorted(maps.Keys(a.rows)) {
			to := a.rows[seq]
			switch {
			case from == task.Unknown:
				taken = append(taken, edge("new", to))
			case seq != before+1 && l.gaps:
			case seq != before+1:
				breaches = append(breaches, fmt.Sprintf("I16: the row of task %s goes from seq %d to %d", id, before, seq))
			case !from.CanBecome(to):
				breaches = append(breaches, fmt.Sprintf("I16: task %s was %s at seq %d, and then %s", id, from, before, to))
			default:
				taken = append(taken, edge(from.String(), to))
			}
			from, before = to, seq
		}
	}
	return taken, breaches
}

func edge(from string, to task.State) string { return fmt.Sprintf("edge %s to %s", from, to) }

// book notes a write.
func (w *world) book(op *store.Op, result error) {
	for _, text := range w.ledger.wrote(op, result) {
		w.breach("%s", text)
	}
}

// bookMessage notes a message.
func (w *world) bookMessage(m *queue.Message) {
	for _, text := range w.ledger.sent(m) {
		w.breach("%s", text)
	}
}

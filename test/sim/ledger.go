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
	held func(t *task.Task) bool // whether a task may have waited for a gate; nil: none may
	gaps bool                    // a write may be missing: the process was killed after its commit and before it could be noted

	mu       sync.Mutex // guards all below
	accounts map[task.ID]*account
}

type account struct {
	rows     map[uint64]written // of the task row, by seq
	attempts uint32
	late     time.Duration // from when it was due until it was sent or claimed first
	sent     bool
	writes   int // that came to the rows, refused ones too: a service charges for both
	messages int
	held     bool // it may have been put back for a gate, and sent again
	givenUp  bool // its workers were lost too often
	changes  int  // writes that replace the row which a caller saw: changes by users, and further uses of a key
}

// written is a task row.
type written struct {
	state    task.State
	replaces uint64 // the seq of the row before; 0: none
	life     uint64
	replaced bool // calls may replace it when it has ended
}

func (l *ledger) account(id task.ID) *account {
	a := l.accounts[id]
	if a == nil {
		a = &account{rows: map[uint64]written{}}
		if l.accounts == nil {
			l.accounts = map[task.ID]*account{}
		}
		l.accounts[id] = a
	}
	return a
}

// goes notes when a task was first on its way to a worker.
func (l *ledger) goes(a *account, t *task.Task) {
	if !a.sent {
		a.sent, a.late = true, time.Since(t.Due.Time())
	}
	if l.held != nil && l.held(t) {
		a.held, a.late = true, 0
	}
}

// wrote notes a write of a task, and says what was wrong with it.
func (l *ledger) wrote(op *store.Op, result error) (breaches []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &op.Task
	a := l.account(t.ID)
	a.writes++
	if op.Kind == store.ReplaceTask && op.From != 0 {
		a.changes++
	}
	if result != nil || op.Kind != store.PutTask && op.Kind != store.ReplaceTask {
		return nil
	}
	if before, twice := a.rows[t.Seq]; twice {
		breaches = append(breaches, fmt.Sprintf("I17: task %s was written as %s at seq %d, and then as %s", t.ID, before.state, t.Seq, t.State))
	}
	row := written{state: t.State, life: t.Life, replaced: t.Collection == draftCollection}
	if op.Kind == store.ReplaceTask {
		row.replaces = op.Replaces()
	}
	a.rows[t.Seq] = row
	a.givenUp = a.givenUp || t.State == task.Dead && t.Lost >= lostMax
	if t.State == task.Enqueued || t.State == task.Claimed {
		l.goes(a, t)
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
	l.goes(a, t)
	row, known := a.rows[t.Seq]
	if known && row.state == task.Enqueued || t.State == task.Scheduled || !known && l.gaps { // the latter holds its task (ADR 19)
		return nil
	}
	return []string{fmt.Sprintf("I17: a message of task %s for seq %d, whose row is %s", t.ID, t.Seq, row.state)}
}

// isGivenUp reports whether a task ever ended because its workers were lost too often.
func (l *ledger) isGivenUp(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, a := range l.accounts {
		if a.givenUp && idOf(id[:]) == name {
			return true
		}
	}
	return false
}

// edges are all changes of state of task rows, and what was wrong with them.
func (l *ledger) edges() (taken, breaches []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range slices.SortedFunc(maps.Keys(l.accounts), func(x, y task.ID) int { return bytes.Compare(x[:], y[:]) }) {
		a := l.accounts[id]
		var from written
		before := uint64(0)
		for _, seq := range slices.Sorted(maps.Keys(a.rows)) {
			to := a.rows[seq]
			switch {
			case from.state == task.Unknown:
				taken = append(taken, edge("new", to.state))
			case to.replaces != before && l.gaps:
			case to.replaces != before:
				breaches = append(breaches, fmt.Sprintf("I16: the row of task %s goes from seq %d to %d", id, before, seq))
			case to.life != from.life && from.freesKey():
				taken = append(taken, edge("key of "+from.state.String(), to.state))
			case to.life != from.life, !from.state.CanBecome(to.state):
				breaches = append(breaches, fmt.Sprintf("I16: task %s was %s at seq %d, and then %s", id, from.state, before, to.state))
			default:
				taken = append(taken, edge(from.state.String(), to.state))
			}
			from, before = to, seq
		}
	}
	return taken, breaches
}

// freesKey reports whether a task gave its key free. The draft register judges those that calls may replace.
func (r written) freesKey() bool {
	return r.state.IsEnd() && (r.replaced || r.state != task.Success && r.state != task.Delivered)
}

func edge(from string, to task.State) string { return fmt.Sprintf("edge %s to %s", from, to) }

// book notes a write.
func (w *world) book(op *store.Op, result error) {
	for _, text := range w.ledger.wrote(op, result) {
		w.breach("%s", text)
	}
	if result == nil {
		w.checkClaim(op)
		w.checkSlots(op)
		w.checkKeys(op)
	}
}

// bookMessage notes a message.
func (w *world) bookMessage(m *queue.Message) {
	w.sentOfKey(m)
	for _, text := range w.ledger.sent(m) {
		w.breach("%s", text)
	}
}

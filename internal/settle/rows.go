package settle

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/google/btree"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// rows is a summary of the live tasks in the store: what decides when time may move.
type rows struct {
	wakeups map[task.Partition]*btree.BTreeG[wakeup]
	live    map[task.ID]row // task rows that have not ended

	queued     map[uint32]int // tasks in their queues, by lambda
	claimed    int
	processing int
	cancelling int          // of both, those with a cancel
	holds      map[hold]int // of both, by worker and lambda
	names      map[uint32]string
	groups     groupRows
}

// row is a summary of a task row.
type row struct {
	state   task.State
	at      task.Instant // its wake-up
	of      task.Partition
	worker  string
	attempt uint32
	cancel  bool
	expires task.Instant // of a task in its queue, if it never started; zero: never
}

// wakeup is the wake-up of a task that is not dispatched: its due time, or the end of a backoff or a snooze.
// A task in its queue has one when it may expire.
type wakeup struct {
	at      task.Instant
	id      task.ID
	waiting bool // the task has a wake-up row and no task row
	of      task.Partition
}

func (m wakeup) before(other wakeup) bool {
	switch {
	case m.at != other.at:
		return m.at < other.at
	case m.waiting != other.waiting:
		return m.waiting
	}
	return bytes.Compare(m.id[:], other.id[:]) < 0
}

// hold identifies the tasks of a lambda that a worker has.
type hold struct {
	worker string
	lambda uint32
}

const treeDegree = 16

func newRows() rows {
	return rows{
		wakeups: map[task.Partition]*btree.BTreeG[wakeup]{}, live: map[task.ID]row{},
		queued: map[uint32]int{}, holds: map[hold]int{}, names: map[uint32]string{}, groups: groupRows{},
	}
}

// note updates the summary with a write that was applied.
func (r *rows) note(op *store.Op) {
	t := &op.Task
	r.groups.note(op)
	switch op.Kind {
	case store.PutWakeup:
		if _, found := r.live[t.ID]; !found && !t.IsBare() {
			r.add(rowWakeup(t))
		}
	case store.DeleteWakeup:
		r.remove(rowWakeup(t))
	case store.PutTask, store.ReplaceTask:
		r.remove(rowWakeup(t)) // from now on the task row has the wake-up
		r.replace(t)
		if t.State.IsEnd() && t.HasFollowups() && !op.Amends {
			r.add(rowWakeup(t)) // until it is deleted a follow-up may be missing
		}
	case store.PutControl:
		r.learnName(&op.Control)
	case store.ReplaceWakeup, store.PutPayload, store.DeletePayload, store.DeleteControl:
	}
}

func (r *rows) add(m wakeup) {
	if r.wakeups[m.of] == nil {
		r.wakeups[m.of] = btree.NewG(treeDegree, wakeup.before)
	}
	r.wakeups[m.of].ReplaceOrInsert(m)
}

func (r *rows) remove(m wakeup) {
	if tree := r.wakeups[m.of]; tree != nil {
		tree.Delete(m)
	}
}

func rowWakeup(t *task.Task) wakeup {
	return wakeup{at: t.WakeRow.At, id: t.ID, waiting: true, of: t.Partition}
}

func (r *rows) replace(t *task.Task) {
	if old, found := r.live[t.ID]; found {
		r.count(t.ID, old, -1)
		delete(r.live, t.ID)
	}
	if t.State.IsEnd() {
		return
	}
	now := row{
		state: t.State, at: cmp.Or(t.Wake, t.Due), of: t.Partition,
		worker: t.Worker, attempt: t.Attempt, cancel: t.CancelRequested,
	}
	if t.MayExpire() {
		now.expires = t.StartBefore
	}
	r.live[t.ID] = now
	r.count(t.ID, now, 1)
}

// count adds a row to the counts (n is 1) or removes it (n is -1).
func (r *rows) count(id task.ID, w row, n int) {
	switch w.state {
	case task.Scheduled, task.RetriableFailure, task.Acquired:
		r.countWakeup(wakeup{at: w.at, id: id, of: w.of}, n)
	case task.Enqueued:
		r.queued[w.of.Lambda] += n
		if w.expires > 0 {
			r.countWakeup(wakeup{at: w.expires, id: id, of: w.of}, n)
		}
	case task.Claimed:
		r.claimed += n
		r.countHold(w, n)
	case task.Processing:
		r.processing += n
		r.countHold(w, n)
	default: // ended rows are not counted
	}
}

func (r *rows) countWakeup(m wakeup, n int) {
	if n > 0 {
		r.add(m)
	} else {
		r.remove(m)
	}
}

func (r *rows) countHold(w row, n int) {
	h := hold{w.worker, w.of.Lambda}
	if r.holds[h] += n; r.holds[h] == 0 {
		delete(r.holds, h)
	}
	if w.cancel {
		r.cancelling += n
	}
}

// learnName remembers the name for a lambda's reference, even when the lambda is deleted.
func (r *rows) learnName(c *store.Control) {
	if c.Kind != catalog.Kind {
		return
	}
	var lambda struct {
		Ref uint32 `json:"ref"`
	}
	if json.Unmarshal(c.Value, &lambda) == nil {
		r.names[lambda.Ref] = c.Name
	}
}

// held returns how many tasks of those lambdas a worker has.
func (r *rows) held(worker string, serves func(lambda string) bool) int {
	n := 0
	for h, tasks := range r.holds {
		if h.worker == worker && serves(r.names[h.lambda]) {
			n += tasks
		}
	}
	return n
}

// overdue describes up to limit tasks that should have been dispatched by now, or that are in a queue.
func (r *rows) overdue(now task.Instant, limit int) []string {
	var all []string
	for _, tree := range r.wakeups {
		tree.Ascend(func(m wakeup) bool {
			if m.at > now || len(all) == limit {
				return false
			}
			all = append(all, fmt.Sprintf("%s task %s was not enqueued, although due since %v", r.names[m.of.Lambda], m.id, m.at.Time()))
			return true
		})
	}
	for id, w := range r.live {
		if len(all) < limit && (w.state == task.Enqueued || w.state.IsRunning()) {
			all = append(all, fmt.Sprintf("%s task %s is %s", r.names[w.of.Lambda], id, w.state))
		}
	}
	return all
}

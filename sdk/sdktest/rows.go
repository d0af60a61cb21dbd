package sdktest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/btree"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// trackedStore is a store whose tracker knows of every write before anyone else can.
type trackedStore struct {
	*storemem.Driver

	tracker *tracker
}

// Apply implements store.Driver.
func (s *trackedStore) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	s.tracker.mu.Lock()
	defer s.tracker.mu.Unlock()
	results, err := s.Driver.Apply(ctx, ops)
	if err != nil {
		return results, err
	}
	for i := range ops {
		if results[i] == nil {
			s.tracker.rows.note(&ops[i])
		}
	}
	s.tracker.changed()
	return results, nil
}

// rows is what the live tasks in the store stand at, as far as it matters for when time may move.
type rows struct {
	moments *btree.BTreeG[moment] // at which the scheduler moves a task on
	live    map[task.ID]row       // task rows that have not ended

	queued     map[uint32]int // tasks in their queues, by lambda
	claimed    int
	processing int
	cancelling int          // of both, those whose handlers are told to stop
	hands      map[hand]int // of both, by worker and lambda
	names      map[uint32]string
}

// row is what is kept of a task row.
type row struct {
	state   task.State
	at      task.Instant // of its moment
	lambda  uint32
	worker  string
	attempt uint32
	cancel  bool
}

// moment is when the scheduler moves a task on: its due time, or the end of a backoff or a snooze.
type moment struct {
	at      task.Instant
	id      task.ID
	waiting bool // of a wake-up row whose task has no task row
	lambda  uint32
}

func (m moment) before(other moment) bool {
	switch {
	case m.at != other.at:
		return m.at < other.at
	case m.waiting != other.waiting:
		return m.waiting
	}
	return bytes.Compare(m.id[:], other.id[:]) < 0
}

// hand is the tasks of a lambda that a worker has.
type hand struct {
	worker string
	lambda uint32
}

const treeDegree = 16

func newRows() rows {
	return rows{
		moments: btree.NewG(treeDegree, moment.before), live: map[task.ID]row{},
		queued: map[uint32]int{}, hands: map[hand]int{}, names: map[uint32]string{},
	}
}

// note follows a write that was applied.
func (r *rows) note(op *store.Op) {
	t := &op.Task
	switch op.Kind {
	case store.PutWakeup:
		if _, found := r.live[t.ID]; !found && !t.IsBare() {
			r.moments.ReplaceOrInsert(waitingMoment(t))
		}
	case store.DeleteWakeup:
		r.moments.Delete(waitingMoment(t))
	case store.PutTask, store.ReplaceTask:
		r.moments.Delete(waitingMoment(t)) // from here on the task row says when
		r.replace(t)
	case store.PutControl:
		r.learnName(&op.Control)
	case store.ReplaceWakeup, store.PutPayload, store.DeletePayload, store.DeleteControl:
	}
}

func waitingMoment(t *task.Task) moment {
	return moment{at: t.WakeRow.At, id: t.ID, waiting: true, lambda: t.Partition.Lambda}
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
		state: t.State, at: cmp.Or(t.Wake, t.Due), lambda: t.Partition.Lambda,
		worker: t.Worker, attempt: t.Attempt, cancel: t.CancelRequested,
	}
	r.live[t.ID] = now
	r.count(t.ID, now, 1)
}

// count adds a row to what it counts for, or takes it out again.
func (r *rows) count(id task.ID, w row, n int) {
	switch w.state {
	case task.Scheduled, task.RetriableFailure, task.Acquired:
		m := moment{at: w.at, id: id, lambda: w.lambda}
		if n > 0 {
			r.moments.ReplaceOrInsert(m)
		} else {
			r.moments.Delete(m)
		}
	case task.Enqueued:
		r.queued[w.lambda] += n
	case task.Claimed:
		r.claimed += n
		r.countHand(w, n)
	case task.Processing:
		r.processing += n
		r.countHand(w, n)
	default: // ends are not kept
	}
}

func (r *rows) countHand(w row, n int) {
	h := hand{w.worker, w.lambda}
	if r.hands[h] += n; r.hands[h] == 0 {
		delete(r.hands, h)
	}
	if w.cancel {
		r.cancelling += n
	}
}

// learnName remembers which lambda a reference stands for, also when the lambda is gone.
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

// inHand is how many tasks of those lambdas a worker has.
func (r *rows) inHand(worker string, serves func(lambda string) bool) int {
	n := 0
	for h, tasks := range r.hands {
		if h.worker == worker && serves(r.names[h.lambda]) {
			n += tasks
		}
	}
	return n
}

// overdue describes up to limit tasks that the scheduler should have moved on by now, or that are in a queue.
func (r *rows) overdue(now task.Instant, limit int) []string {
	var all []string
	r.moments.Ascend(func(m moment) bool {
		if m.at > now || len(all) == limit {
			return false
		}
		all = append(all, fmt.Sprintf("%s task %s was not enqueued, although due since %v", r.names[m.lambda], m.id, m.at.Time()))
		return true
	})
	for id, w := range r.live {
		if len(all) < limit && (w.state == task.Enqueued || w.state.IsRunning()) {
			all = append(all, fmt.Sprintf("%s task %s is %s", r.names[w.lambda], id, w.state))
		}
	}
	return all
}

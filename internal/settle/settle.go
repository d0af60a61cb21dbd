// Package settle knows what of a server in virtual time is due and has not ended, and when something is due
// next, so that whoever moves time waits for the one and jumps to the other. It learns of tasks from the writes
// to the store, and from the node what the server holds. It moves no time, and knows nothing of how workers are
// connected.
package settle

import (
	"context"
	"encoding/json"
	"iter"
	"math"
	"sync"

	"github.com/kinesin-io/kinesin/internal/feature/group"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// Tracker tracks the tasks of one server. Time moves only with its lock held and while the server rests, so that
// no goroutine that has work to do sees time jump. But for Signal, call its methods with the lock held.
type Tracker struct {
	sync.Mutex // held during writes to the store

	// Events holds one value when something has changed.
	Events chan struct{}
	// Server is set before the first write of the server's.
	Server Server
	// Noted is called with each write that was applied, with the lock held. It may be nil.
	Noted func(op *store.Op)

	progress uint64
	rows     rows
	looks    map[task.Partition]look
	acts     task.Instant // when the server does something about what it holds, or for a job; never: not by itself
}

// Server says what became of due tasks that it has not dispatched (node.Node).
type Server interface {
	Look(p task.Partition, from task.Instant) uint64
	Rests(p task.Partition) (look uint64, acts task.Instant, ok bool)
	WorkRests() (until task.Instant, ok bool)
}

// look is when the server was asked to look at a partition.
type look struct {
	number   uint64
	progress uint64
	at       task.Instant
}

const never = task.Instant(math.MaxInt64)

// New returns a Tracker of an empty store.
func New() *Tracker {
	return &Tracker{Events: make(chan struct{}, 1), rows: newRows(), looks: map[task.Partition]look{}, acts: never}
}

// Store returns the driver as one that tells the tracker of every write before it returns.
func (t *Tracker) Store(d *storemem.Driver) store.Driver { return &trackedStore{d, t} }

type trackedStore struct {
	*storemem.Driver

	tracker *Tracker
}

// Apply implements store.Driver.
func (s *trackedStore) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	t := s.tracker
	t.Lock()
	defer t.Unlock()
	results, err := s.Driver.Apply(ctx, ops)
	if err != nil {
		return results, err
	}
	for i := range ops {
		if results[i] != nil {
			continue
		}
		t.rows.note(&ops[i])
		if t.Noted != nil {
			t.Noted(&ops[i])
		}
	}
	t.Changed()
	return results, nil
}

// Changed notes a change, and signals it.
func (t *Tracker) Changed() {
	t.progress++
	t.Signal()
}

// Signal has whoever waits for Events look again. It needs no lock.
func (t *Tracker) Signal() {
	select {
	case t.Events <- struct{}{}:
	default:
	}
}

// Progress returns how many changes there were so far.
func (t *Tracker) Progress() uint64 { return t.progress }

// NameOf returns the name for a lambda's reference.
func (t *Tracker) NameOf(ref uint32) string { return t.rows.names[ref] }

// Running returns how many attempts are claimed, and processing, and of both those with a cancel that their
// worker has not answered.
func (t *Tracker) Running() (claimed, processing, cancelling int) {
	return t.rows.claimed, t.rows.processing, t.rows.cancelling
}

// HeldBy returns how many tasks of those lambdas a worker has.
func (t *Tracker) HeldBy(worker string, serves func(lambda string) bool) int {
	return t.rows.held(worker, serves)
}

// Queued returns the names of the lambdas that have tasks in their queues.
func (t *Tracker) Queued() iter.Seq[string] {
	return func(yield func(string) bool) {
		for lambda, n := range t.rows.queued {
			if n > 0 && !yield(t.rows.names[lambda]) {
				return
			}
		}
	}
}

// Rests reports whether the server has dispatched all that is due, except what it holds by a gate, a quota or
// the like: since the last change and at this instant it has looked at each such task, and it has nothing to do.
// If not, it is asked to look, and Events tells when Rests is worth another call.
func (t *Tracker) Rests(now task.Instant) bool {
	if t.rows.groups.isEnding(now) {
		return false
	}
	until, rests := t.Server.WorkRests()
	t.acts = until
	for p, tree := range t.rows.wakeups {
		first, found := tree.Min()
		if !found || first.at > now {
			continue
		}
		made, acts, ok := t.Server.Rests(p)
		if !ok || acts <= now {
			rests = false
			continue
		}
		if asked := t.looks[p]; asked.progress != t.progress || asked.at != now {
			t.looks[p] = look{t.Server.Look(p, first.at), t.progress, now}
			rests = false
		} else if made < asked.number {
			rests = false
		}
		t.acts = min(t.acts, acts)
	}
	return rests
}

// Next returns the next time after now at which the server has something to do. The server must rest.
func (t *Tracker) Next(now task.Instant) (next task.Instant, found bool) {
	consider := func(at task.Instant) {
		if at > now && (!found || at < next) {
			next, found = at, true
		}
	}
	if t.acts != never {
		consider(t.acts)
	}
	for _, tree := range t.rows.wakeups {
		tree.AscendGreaterOrEqual(wakeup{at: now + 1, waiting: true}, func(first wakeup) bool {
			consider(first.at)
			return false
		})
	}
	for _, g := range t.rows.groups {
		if g.group.ID != "" {
			consider(g.lastLook())
		}
	}
	return next, found
}

// Overdue describes up to limit tasks that should have been dispatched by now, or that are in a queue or run.
func (t *Tracker) Overdue(now task.Instant, limit int) []string { return t.rows.overdue(now, limit) }

// groupRows has the groups that have not ended, so that time stands still while the server ends one.
type groupRows map[task.ID]*groupRow

type groupRow struct {
	group group.Group
	ended map[uint32]bool // members; also before the group's row is seen
}

func (g groupRows) of(id task.ID) *groupRow {
	if g[id] == nil {
		g[id] = &groupRow{ended: map[uint32]bool{}}
	}
	return g[id]
}

// note updates the groups with a write that was applied.
func (g groupRows) note(op *store.Op) {
	switch op.Kind { //nolint:exhaustive // the others are not of groups
	case store.PutControl, store.DeleteControl:
		id, err := task.ParseID(op.Control.Name)
		if op.Control.Kind != group.KindOpen || err != nil {
			return
		}
		if op.Kind == store.DeleteControl {
			delete(g, id)
			return
		}
		r := g.of(id)
		_ = json.Unmarshal(op.Control.Value, &r.group) // the server wrote it
	case store.PutTask, store.ReplaceTask:
		m := op.Task.Member
		if m == nil || !op.Task.State.IsEnd() && g[m.Group] == nil {
			return
		}
		if op.Task.State.IsEnd() {
			g.of(m.Group).ended[m.Index] = true
		} else {
			delete(g[m.Group].ended, m.Index)
		}
	}
}

// isEnding reports whether the server is about to end a group.
func (g groupRows) isEnding(now task.Instant) bool {
	for _, r := range g {
		if !r.group.Sealed.IsZero() && len(r.ended) >= int(r.group.Members) || r.group.ID != "" && now >= r.lastLook() {
			return true
		}
	}
	return false
}

// lastLook is when the server has seen that the group expired.
func (r *groupRow) lastLook() task.Instant { return r.group.Expires.Add(group.ScanEvery) }

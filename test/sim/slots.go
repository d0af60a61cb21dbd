package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// concurrencyOf draws how many tasks of the lambda, or of one of its priorities, may run at once; 0: any
// number. It is drawn apart from everything else.
func concurrencyOf(seed uint64) (c Concurrency) {
	r := rand.New(rand.NewPCG(seed, 8))
	if r.IntN(4) > 0 {
		return c
	}
	return Concurrency{Count: 1 + r.IntN(3), Class: []string{"", "", "high", "low"}[r.IntN(4)]}
}

// lookAhead is that of schedulers.
const lookAhead = 10 * time.Second

// Concurrency is a quota of how many tasks run at once.
type Concurrency struct {
	Count int
	Class string // of the priority; empty: of all together
}

// slots knows which tasks of the lambda with the quota run, by their rows.
type slots struct {
	ref     uint32 // of the lambda; 0: there is no quota
	class   int    // of the priority; negative: all together
	most    int
	running map[task.ID]uint32 // attempts
}

// openSlots sets the quota of the plan, and waits until all servers know it.
func (w *world) openSlots(setup *client) {
	c := w.plan.Concurrency
	if c.Count == 0 {
		return
	}
	for w.ctx.Err() == nil {
		_, err := admin.New(setup.sdk).Quotas.Set(w.ctx, admin.Quota{Lambda: lambda, Priority: c.Class, Concurrency: c.Count}, admin.QuotaSetOptions{})
		s := w.any()
		if err == nil && s != nil && w.knowSlots(s) {
			return
		}
		time.Sleep(time.Second)
	}
}

func (w *world) knowSlots(s *server) bool {
	for _, l := range s.node.Lambdas() {
		if l.Name == lambda {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.slots = slots{l.Ref, slices.Index(l.Priorities, w.plan.Concurrency.Class), w.plan.Concurrency.Count, map[task.ID]uint32{}}
			return true
		}
	}
	return false
}

// checkSlots is invariant I23, after every write of a task row: no more tasks of a lambda with a concurrency
// quota are claimed at once than it allows. Where the clock of a server was set back by more than its
// look-ahead, what runs may be hidden from those who count it (ADR 39), so that it is not judged any more.
func (w *world) checkSlots(op *store.Op) {
	t := &op.Task
	if op.Kind != store.PutTask && op.Kind != store.ReplaceTask {
		return
	}
	w.mu.Lock()
	s := &w.slots
	var found string
	if !w.uncounted && s.ref == t.Partition.Lambda && (s.class < 0 || s.class == int(t.Partition.Priority)) && s.ref != 0 {
		if !t.State.IsRunning() {
			delete(s.running, t.ID)
		} else if s.running[t.ID] = t.Attempt; len(s.running) > s.most {
			found = fmt.Sprintf("I23: %d tasks run at once, the last one %s, and the quota is %d", len(s.running), t.ID, s.most)
		}
	}
	w.mu.Unlock()
	if found != "" {
		w.breach("%s", found)
	}
}

// forgetSlots forgets what runs, where the writes of a server that was killed may be missing.
func (w *world) forgetSlots() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.slots.running)
}

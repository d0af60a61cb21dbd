package scheduler

import (
	"sync"

	"github.com/kinesin-io/kinesin/task"
)

// acquiredTasks holds the tasks of deliver lambdas that this process has acquired and not finished, over all
// its partitions. A row that is acquired in its name and is not here was left by an earlier life of it.
type acquiredTasks struct {
	mu  sync.Mutex
	ids map[task.ID]struct{}
}

// add adds a task, and reports whether it is new.
func (a *acquiredTasks) add(id task.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, has := a.ids[id]; has {
		return false
	}
	if a.ids == nil {
		a.ids = map[task.ID]struct{}{}
	}
	a.ids[id] = struct{}{}
	return true
}

func (a *acquiredTasks) drop(id task.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.ids, id)
}

func (a *acquiredTasks) has(id task.ID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, has := a.ids[id]
	return has
}

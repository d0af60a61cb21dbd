package scheduler

import (
	"sync"

	"github.com/kinesin-io/kinesin/task"
)

// hand is what this process has acquired and not yet got rid of, over all its partitions: a row that is
// acquired in its name and is not in hand was left by an earlier life of it.
type hand struct {
	mu    sync.Mutex
	tasks map[task.ID]struct{}
}

// take adds a task; false when it is there.
func (h *hand) take(id task.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, has := h.tasks[id]; has {
		return false
	}
	if h.tasks == nil {
		h.tasks = map[task.ID]struct{}{}
	}
	h.tasks[id] = struct{}{}
	return true
}

func (h *hand) drop(id task.ID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.tasks, id)
}

func (h *hand) has(id task.ID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	_, has := h.tasks[id]
	return has
}

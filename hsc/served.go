package hsc

import (
	"sync"

	"github.com/kinesin-io/kinesin/task"
)

// servedMax bounds the claims that are remembered, in two generations.
const servedMax = 1 << 14

// served remembers what messages led to claims here, for queues that may hand a message out again: after a
// delete that did not get through, or for no reason. Such a message is of no use, and is refused without a
// word with the store. A nil served remembers nothing.
type served struct {
	mu       sync.Mutex
	now, old map[task.ID]uint64 // the newest sequence number that was claimed
}

func newServed() *served {
	return &served{now: map[task.ID]uint64{}, old: map[task.ID]uint64{}}
}

// note remembers that the row with the sequence number was claimed. The id of a task with a key is not
// remembered: another task may have the key later, and its numbers begin anew.
func (s *served) note(id task.ID, seq uint64) {
	if s == nil || id.IsDerived() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.now) >= servedMax/2 {
		s.now, s.old = s.old, s.now
		clear(s.now)
	}
	s.now[id] = max(seq, s.now[id])
}

// has reports whether the task was claimed here as the message has it, or later.
func (s *served) has(t *task.Task) bool {
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.Seq <= max(s.now[t.ID], s.old[t.ID]) // a stored task has a sequence number of 1 at least
}

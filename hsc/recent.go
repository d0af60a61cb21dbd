package hsc

import (
	"sync"

	"github.com/kinesin-io/kinesin/task"
)

// recentClaimsMax bounds the claims that are remembered, in two generations.
const recentClaimsMax = 1 << 14

// recentClaims remembers which messages led to claims here, for queues that may deliver a message again: then
// it is refused without a call to the store. A nil recentClaims remembers nothing.
type recentClaims struct {
	mu           sync.Mutex
	newer, older map[task.ID]uint64 // the newest sequence number that was claimed
}

func newRecentClaims() *recentClaims {
	return &recentClaims{newer: map[task.ID]uint64{}, older: map[task.ID]uint64{}}
}

// add remembers that the row with the sequence number was claimed. It ignores tasks with a key: another task
// may have the key later, with sequence numbers that begin anew.
func (r *recentClaims) add(id task.ID, seq uint64) {
	if r == nil || id.IsDerived() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.newer) >= recentClaimsMax/2 {
		r.newer, r.older = r.older, r.newer
		clear(r.newer)
	}
	r.newer[id] = max(seq, r.newer[id])
}

// has reports whether the task was claimed here as the message has it, or later.
func (r *recentClaims) has(t *task.Task) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return t.Seq <= max(r.newer[t.ID], r.older[t.ID]) // a stored task has a sequence number of 1 at least
}

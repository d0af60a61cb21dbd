package pebble

import (
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// headerCache has the headers of the wake-up and task rows that were written last, so that a write which
// replaces or deletes one need not read it. Most tasks are dispatched, claimed and ended within moments, and
// reading was a sixth of the committer's work in a drain. A header is always the one in the database, because
// only the committer writes. Only the committer uses it.
type headerCache struct {
	young, old map[headKey]store.Header // old is dropped when young is full
	rowsMax    int                      // of one generation
	generation uint64                   // how many were dropped
}

// headRowsMax bounds one generation; both take some 4 MB.
const headRowsMax = 1 << 14

// headKey names a row: a wake-up row by its instant, a task row by an instant that no wake-up row has.
type headKey struct {
	id task.ID
	at task.Instant
}

func taskHead(id task.ID) headKey { return headKey{id, -1} }

func newHeaderCache(rowsMax int) *headerCache {
	return &headerCache{young: map[headKey]store.Header{}, old: map[headKey]store.Header{}, rowsMax: rowsMax}
}

func (h *headerCache) get(k headKey) (head store.Header, found bool) {
	if head, found = h.young[k]; !found {
		head, found = h.old[k]
	}
	return head, found
}

func (h *headerCache) put(k headKey, head store.Header) {
	if len(h.young) >= h.rowsMax {
		h.young, h.old = h.old, h.young
		clear(h.young)
		h.generation++
	}
	h.young[k] = head
}

func (h *headerCache) drop(k headKey) {
	delete(h.young, k)
	delete(h.old, k)
}

package storetest

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Lagging is a driver whose index of wake-ups shows each change only after a while, as an eventually consistent index does:
// new entries come late, and those of rows that moved on stay. The rows themselves are read as they are, and a row is
// returned only where it belongs.
type Lagging struct {
	store.Driver

	now func() task.Instant

	mu      sync.Mutex
	lag     func(t *task.Task) time.Duration
	shown   map[task.ID]indexEntry
	pending []indexChange // in the order in which they were made
}

type indexEntry struct {
	partition task.Partition
	key       store.WakeKey
}

type indexChange struct {
	shows task.Instant
	entry indexEntry
}

// NewLagging wraps an empty driver; now is its clock. lag says how late the index shows the change that made the row.
func NewLagging(d store.Driver, now func() task.Instant, lag func(t *task.Task) time.Duration) *Lagging {
	return &Lagging{Driver: d, now: now, lag: lag, shown: map[task.ID]indexEntry{}}
}

// Apply implements store.Driver.
func (l *Lagging) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	results, err := l.Driver.Apply(ctx, ops)
	if err != nil {
		return results, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range ops {
		if t := &ops[i].Task; results[i] == nil && (ops[i].Kind == store.PutTask || ops[i].Kind == store.ReplaceTask) {
			entry := indexEntry{t.Partition, store.WakeKey{Wake: t.Wake, ID: t.ID}}
			l.pending = append(l.pending, indexChange{l.now().Add(l.lag(t)), entry})
		}
	}
	return results, nil
}

// ScanWakeups implements store.Driver, from the index as it shows.
func (l *Lagging) ScanWakeups(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	keys := l.keys(p, after, through)
	ids := make([]task.ID, len(keys))
	for i, k := range keys {
		ids[i] = k.ID
	}
	if len(ids) == 0 {
		return nil, ctx.Err()
	}
	rows, err := l.Tasks(ctx, ids)
	if err != nil {
		return nil, err
	}
	found := make([]task.Task, 0, min(limit, len(rows)))
	for i := range rows {
		if rows[i].ID.IsZero() || rows[i].Wake != keys[i].Wake {
			continue // the index is behind
		}
		if found = append(found, rows[i]); len(found) == limit {
			break
		}
	}
	return found, nil
}

// keys are those that the index shows, in order.
func (l *Lagging) keys(p task.Partition, after store.WakeKey, through task.Instant) []store.WakeKey {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.show()
	var keys []store.WakeKey
	for _, e := range l.shown {
		if e.partition == p && compareKeys(e.key, after) > 0 && e.key.Wake <= through {
			keys = append(keys, e.key)
		}
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}

// show lets the changes in whose time has come; those of one row in their order.
func (l *Lagging) show() {
	now := l.now()
	held := map[task.ID]bool{}
	kept := l.pending[:0]
	for _, c := range l.pending {
		id := c.entry.key.ID
		switch {
		case c.shows > now || held[id]:
			held[id] = true
			kept = append(kept, c)
		case c.entry.key.Wake.IsZero():
			delete(l.shown, id)
		default:
			l.shown[id] = c.entry
		}
	}
	l.pending = kept
}

func compareKeys(a, b store.WakeKey) int {
	return cmp.Or(cmp.Compare(a.Wake, b.Wake), bytes.Compare(a.ID[:], b.ID[:]))
}

package inbound

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"math"

	"github.com/kinesin-io/kinesin/internal/minheap"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// dueAheadMin is how many rows of each partition are read at a time for a list in order of due times.
	dueAheadMin = 16
	// dueRowsMax bounds the rows that such a list reads ahead of all partitions together, of which there may
	// be thousands. At least one of each is needed.
	dueRowsMax = 20_000
)

// byDue lists live tasks in order of the time at which they are due next, whatever their partition: it merges
// the partitions, each of which the store has in that order.
func (in *Inbound) byDue(ctx context.Context, of *Selection, position []byte, limit int) (page Page, err error) {
	m := merge{in: in}
	var at place
	if len(position) > 0 && json.Unmarshal(position, &at) != nil {
		return page, errCursor
	}
	partitions := of.partitions(in.Catalog, liveStates())
	parts := max(1, len(partitions))
	m.ahead = min(setRowsRead, max(1, min(dueAheadMin, dueRowsMax/parts), 2*limit/parts))
	from := of.Filter.DueFrom().Add(-dueSlack)
	for _, p := range partitions {
		s := &stretch{partition: p, after: at.before(p)}
		if from > s.after.Wake {
			s.after = store.WakeKey{Wake: from}
		}
		if err := m.add(ctx, s); err != nil {
			return page, err
		}
	}
	for len(page.Rows) < limit && page.Examined < setRowsPage {
		wakeups, err := m.take(ctx, max(dueAheadMin, limit-len(page.Rows)))
		if err != nil {
			return page, err
		}
		if len(wakeups) == 0 {
			return page, nil
		}
		all, err := in.tasksBehind(ctx, wakeups)
		if err != nil {
			return page, err
		}
		for i := range all {
			if len(page.Rows) >= limit {
				break
			}
			page.Examined++
			at = place{Partition: wakeups[i].Partition, After: int64(wakeups[i].WakeRow.At), ID: wakeups[i].ID}
			if all[i].isTask() && of.has(in.Catalog, &all[i].Task) {
				page.Rows = append(page.Rows, all[i].found)
			}
		}
	}
	page.Next, err = json.Marshal(at)
	return page, err
}

// before returns the key after which a partition goes on, when this is the place of the last row of a list in
// order of (wake, partition, id).
func (at *place) before(p task.Partition) store.WakeKey {
	key := store.WakeKey{Partition: p, Wake: task.Instant(at.After), ID: at.ID}
	switch order := comparePartitions(p, at.Partition); {
	case at.After == 0:
		return store.WakeKey{Partition: p}
	case order < 0:
		key.ID = task.ID(bytes.Repeat([]byte{0xff}, len(key.ID)))
	case order > 0:
		key.ID = task.ID{}
	}
	return key
}

// stretch is the next part of a partition.
type stretch struct {
	minheap.Place // in merge.heads

	partition task.Partition
	after     store.WakeKey
	rows      []task.Task
	isLast    bool
}

// Before orders stretches by their first rows.
func (s *stretch) Before(other *stretch) bool {
	a, b := &s.rows[0], &other.rows[0]
	return cmp.Or(cmp.Compare(a.WakeRow.At, b.WakeRow.At), comparePartitions(a.Partition, b.Partition)) < 0
}

// merge yields the wake-up rows of several partitions in order of (wake, partition, id).
type merge struct {
	in    *Inbound
	ahead int
	heads minheap.Heap[*stretch] // by their first rows
}

// add reads the next rows of a partition.
func (m *merge) add(ctx context.Context, s *stretch) (err error) {
	if s.isLast {
		return nil
	}
	if s.rows, err = m.in.Store.ScanSchedule(ctx, s.partition, s.after, math.MaxInt64, m.ahead); err != nil {
		return err
	}
	if s.isLast = len(s.rows) < m.ahead; len(s.rows) > 0 {
		s.after = store.KeyOf(&s.rows[len(s.rows)-1])
		m.heads.Put(s)
	}
	return nil
}

// take returns the first n rows of all.
func (m *merge) take(ctx context.Context, n int) (rows []task.Task, err error) {
	for len(rows) < n && m.heads.Len() > 0 {
		s := m.heads.First()
		rows, s.rows = append(rows, s.rows[0]), s.rows[1:]
		if len(s.rows) > 0 {
			m.heads.Put(s)
			continue
		}
		m.heads.Remove(s)
		if err := m.add(ctx, s); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

package inbound

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/minheap"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/internal/where"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Orders of a list; empty: by time, as far as that is cheap.
const (
	orderDue     = "due"
	orderCreated = "-created"
	orderEnded   = "-ended"
)

const (
	// dueAheadMin is how many rows of each partition are read at a time for a list in order of due times.
	dueAheadMin = 16
	// dueRowsMax bounds the rows that such a list reads ahead of all partitions together, of which there may
	// be thousands. At least one of each is needed.
	dueRowsMax = 20_000
)

// Select returns the set that an expression selects, of what a caller may read. Durations in it count from
// now.
func Select(expression string, now task.Instant, by access.Grants) (Selection, error) {
	filter, err := where.Parse(expression, now)
	if err != nil {
		return Selection{}, refusal.Invalid("%v", err)
	}
	return Selection{Filter: filter, By: by, Live: true, Ended: true}.narrowed(), nil
}

// Where returns the names of the lambdas of which an expression may select tasks.
func (in *Inbound) Where(expression string) (lambdas []string, err error) {
	filter, err := where.Parse(expression, in.Clock.Now())
	if err != nil {
		return nil, refusal.Invalid("%v", err)
	}
	for _, l := range in.Catalog.All() {
		if filter.CanBeOf(l.Name) {
			lambdas = append(lambdas, l.Name)
		}
	}
	return lambdas, nil
}

// setCursor is where a list of a set goes on. Now is when it began: durations in its filter count from then.
type setCursor struct {
	Now   task.Instant    `json:"n"`
	Place json.RawMessage `json:"p"`
}

// listSet pages over the tasks that a filter selects.
func (in *Inbound) listSet(ctx context.Context, r *kinesinv1.ListRequest, limit int) (*kinesinv1.ListResponse, error) {
	name := fmt.Sprintf("set %q %q %q %q", r.Lambda, r.State, r.Where, r.Order)
	at := setCursor{Now: in.Clock.Now()}
	if len(r.Cursor) > 0 {
		text, ours := in.Pages.Open(ctx, name, r.Cursor)
		if !ours || r.Cursor[0] == '{' || json.Unmarshal(text, &at) != nil { // no release gave such a list cursors without a seal
			return nil, errCursor
		}
	}
	of, err := in.selectionOf(ctx, r, at.Now)
	if err != nil {
		return nil, err
	}
	if r.MaxExamined < 0 || r.MaxExamined > newestExaminedMax {
		return nil, refusal.Invalid("max_examined %d: want 1 to %d, or 0 for the most", r.MaxExamined, newestExaminedMax)
	}
	var page Page
	newest := newestList{name: name, began: at.Now, ends: r.Order != orderCreated, most: cmp.Or(int(r.MaxExamined), newestExaminedMax)}
	switch r.Order {
	case "":
		page, err = in.byTime(ctx, of, newest, at.Place, limit)
	case orderDue:
		page, err = in.byDue(ctx, of, at.Place, limit)
	case orderCreated, orderEnded:
		page, err = in.newest(ctx, of, newest, at.Place, limit)
	default:
		return nil, refusal.Invalid("order %q: want due, -created, -ended, or none", r.Order)
	}
	if err != nil {
		return nil, refusal.Wire(err)
	}
	response := &kinesinv1.ListResponse{}
	for i := range page.Rows {
		response.Tasks = append(response.Tasks, in.view(&page.Rows[i].Task))
	}
	if at.Place = page.Next; len(page.Next) > 0 {
		next, err := json.Marshal(at)
		if err != nil {
			return nil, err
		}
		response.NextCursor = in.Pages.Seal(name, next)
	}
	return response, nil
}

// selectionOf returns the set of a list.
func (in *Inbound) selectionOf(ctx context.Context, r *kinesinv1.ListRequest, now task.Instant) (*Selection, error) {
	of, err := Select(r.Where, now, access.From(ctx).Grants)
	if err != nil {
		return nil, err
	}
	if r.Lambda != "" {
		if of.Lambda, err = in.Catalog.Find(ctx, r.Lambda); err != nil {
			return nil, refusal.Wire(err)
		}
	}
	if r.State != "" {
		if of.State, err = task.ParseState(r.State); err != nil {
			return nil, refusal.Invalid("%v", err)
		}
	}
	of = of.narrowed()
	switch {
	case r.Order == orderDue && !of.Live && of.Ended:
		return nil, refusal.Invalid("order due is that of live tasks, and the filter selects only ended ones: want -ended")
	case r.Order == orderEnded && !of.Ended && of.Live:
		return nil, refusal.Invalid("order -ended is that of ended tasks, and the filter selects only live ones: want due")
	}
	return &of, nil
}

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

// merge yields the wake-up rows of several partitions in order of (wake, partition, id).
type merge struct {
	in    *Inbound
	ahead int
	heads minheap.Heap[*stretch] // by their first rows
}

// Before orders stretches by their first rows.
func (s *stretch) Before(other *stretch) bool {
	a, b := &s.rows[0], &other.rows[0]
	return cmp.Or(cmp.Compare(a.WakeRow.At, b.WakeRow.At), comparePartitions(a.Partition, b.Partition)) < 0
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

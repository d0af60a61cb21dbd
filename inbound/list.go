package inbound

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// listRowsRead is how many rows are read at a time where not all of them match.
const listRowsRead = 1000

// One call reads for at most listCostMax, since much of what it reads may not match; it then answers with
// what it has and a cursor. A page of ended rows is read from an index over the ended tasks of all lambdas.
const (
	listCostMax   = 1024
	listCostLive  = 1
	listCostEnded = 16
)

// cursor is where a list goes on: in which section of which partition, after which row.
type cursor struct {
	Section   section `json:"s"`
	Partition int     `json:"p"`
	After     int64   `json:"a,omitempty"` // wake of the last wake-up row, in microseconds
	ID        string  `json:"i,omitempty"`
	Inner     []byte  `json:"c,omitempty"` // cursor of the driver
}

// List pages over tasks. Where each row that is read costs money, those of a lambda come by partition and
// time, then ended ones. Any other list is one of a set of what the caller may read.
func (in *Inbound) List(ctx context.Context, request *kinesinv1.ListRequest) (*kinesinv1.ListResponse, error) {
	if request.Lambda == "" || request.Where != "" || request.Order != "" {
		limit, err := listLimit(request.Limit)
		if err != nil {
			return nil, err
		}
		return in.listSet(ctx, request, limit)
	}
	l, err := in.Catalog.Find(ctx, request.Lambda)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	list := listing{Inbound: in, lambda: l}
	if list.limit, err = listLimit(request.Limit); err != nil {
		return nil, err
	}
	if request.State != "" {
		if list.state, err = task.ParseState(request.State); err != nil {
			return nil, refusal.Invalid("%v", err)
		}
	}
	position, err := in.Pages.Open(ctx, list.name(), request.Cursor)
	ours := err == nil
	switch {
	case !in.Store.EndedExpire() && (len(request.Cursor) == 0 || !ours):
		return in.listSet(ctx, request, list.limit) // by time, which only costs money elsewhere
	case len(request.Cursor) == 0:
		return list.page(ctx)
	case !ours:
		return nil, errCursor
	}
	if list.cursor, err = decodeCursor(position); err != nil {
		return nil, err
	}
	return list.page(ctx)
}

func listLimit(asked int32) (int, error) {
	limit := cmp.Or(int(asked), listDefault)
	if limit < 1 || limit > ListMax {
		return 0, refusal.Invalid("limit %d: want 1 to %d", asked, ListMax)
	}
	return limit, nil
}

func decodeCursor(text []byte) (c cursor, err error) {
	if json.Unmarshal(text, &c) != nil || c.Section >= sectionEnd || c.Partition < 0 || c.After < 0 {
		return cursor{}, errCursor
	}
	return c, nil
}

// listing is one List call.
type listing struct {
	*Inbound
	lambda *catalog.Entry
	state  task.State // Unknown: all
	limit  int
	cursor cursor
	tasks  []*kinesinv1.Task
}

func (l *listing) page(ctx context.Context) (*kinesinv1.ListResponse, error) {
	partitions := l.lambda.Partitions()
	for cost := 0; cost < listCostMax; cost += l.cost() {
		if len(l.tasks) >= l.limit || l.cursor.Section >= sectionEnd {
			break
		}
		if l.cursor.Partition >= len(partitions) || !l.wants(l.cursor.Section) {
			l.cursor = cursor{Section: l.cursor.Section + 1}
			continue
		}
		more, err := l.read(ctx, partitions[l.cursor.Partition])
		if err != nil {
			return nil, refusal.Wire(err)
		}
		if !more {
			l.cursor = cursor{Section: l.cursor.Section, Partition: l.cursor.Partition + 1}
		}
	}
	response := &kinesinv1.ListResponse{Tasks: l.tasks}
	if l.cursor.Section < sectionEnd {
		next, err := json.Marshal(l.cursor)
		if err != nil {
			return nil, err
		}
		response.Next = l.Pages.Seal(l.name(), next)
	}
	return response, nil
}

// name names the list for the seal of its cursors.
func (l *listing) name() string { return fmt.Sprintf("tasks %d %s", l.lambda.Ref, l.state) }

func (l *listing) cost() int {
	if l.cursor.Section == inEnded {
		return listCostEnded
	}
	return listCostLive
}

// wants reports whether rows of the wanted state can be in a section.
func (l *listing) wants(s section) bool {
	return l.state == task.Unknown || l.state.IsEnd() == (s == inEnded)
}

// read reads one page of a partition; more says that there may be another.
func (l *listing) read(ctx context.Context, p task.Partition) (more bool, err error) {
	if l.cursor.Section == inEnded {
		return l.readEnded(ctx, p)
	}
	limit := l.limit - len(l.tasks)
	if l.state != task.Unknown {
		limit = max(limit, listRowsRead)
	}
	id, _ := task.ParseID(l.cursor.ID) // the start of the range when it is not an id
	after := store.WakeKey{Partition: p, Wake: task.Instant(l.cursor.After), ID: id}
	wakeups, err := l.Store.ScanSchedule(ctx, p, after, math.MaxInt64, limit)
	if err != nil {
		return false, err
	}
	all, err := l.tasksBehind(ctx, wakeups)
	if err != nil {
		return false, err
	}
	for i := range all {
		if len(l.tasks) >= l.limit {
			return true, nil
		}
		l.cursor.ID, l.cursor.After = wakeups[i].ID.String(), int64(wakeups[i].WakeRow.At)
		b := &all[i]
		if b.conclusion == store.Leftover || b.conclusion == store.Unclear || (l.state != task.Unknown && l.state != b.State) {
			continue
		}
		l.tasks = append(l.tasks, l.view(&b.Task))
	}
	return len(wakeups) == limit, nil
}

func (l *listing) readEnded(ctx context.Context, p task.Partition) (more bool, err error) {
	rows, next, err := l.Store.ScanEnded(ctx, &p, l.state, l.cursor.Inner, l.limit-len(l.tasks))
	if errors.Is(err, store.ErrMalformed) {
		return false, errCursor
	}
	for i := range rows {
		l.tasks = append(l.tasks, l.view(&rows[i]))
	}
	l.cursor.Inner = next
	return len(next) > 0, err
}

// Orders of a list; empty: by time, as far as that is cheap.
const (
	orderDue     = "due"
	orderCreated = "-created"
	orderEnded   = "-ended"
)

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
		text, err := in.Pages.Open(ctx, name, r.Cursor)
		if err != nil || json.Unmarshal(text, &at) != nil {
			return nil, errCursor
		}
	}
	of, err := in.selectionOf(ctx, r, at.Now)
	if err != nil {
		return nil, err
	}
	if r.MaxExamined < 0 || r.MaxExamined > newestExaminedMax {
		return nil, refusal.Invalid("max_examined %d: want 1 to %d, or 0 for %d", r.MaxExamined, newestExaminedMax, newestExaminedDefault)
	}
	var page Page
	newest := newestList{name: name, began: at.Now, ends: r.Order != orderCreated, most: cmp.Or(int(r.MaxExamined), newestExaminedDefault)}
	switch r.Order {
	case "":
		page, err = in.byTime(ctx, of, newest, at.Place, limit)
	case orderDue:
		page, err = in.byDue(ctx, of, at.Place, limit)
	case orderCreated, orderEnded:
		page, err = in.newest(ctx, of, newest, at.Place, limit)
	default:
		return nil, refusal.Invalid("order %q: want due, -created or -ended, or no order", r.Order)
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
		response.Next = in.Pages.Seal(name, next)
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

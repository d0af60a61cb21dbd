package inbound

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
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
	limit := int(asked)
	if limit == 0 {
		limit = listDefault
	}
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

package inbound

import (
	"context"
	"encoding/json"
	"math"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// listPagesMax bounds the driver's pages one call reads, since many of them may hold nothing
// that matches; the call then answers with what it has and where to go on.
const listPagesMax = 64

// section is where a listed task's row is.
type section uint8

const (
	inWaiting section = iota // waiting rows
	inWakeups                // task rows with a wake-up
	inEnded                  // ended rows
	sectionEnd
)

// place is where a list goes on: which section of which partition, after which row.
type place struct {
	Section   section `json:"s"`
	Partition int     `json:"p"`
	After     int64   `json:"a,omitempty"` // due or wake-up of the last row, in microseconds
	ID        string  `json:"i,omitempty"`
	Inner     []byte  `json:"c,omitempty"` // cursor of the driver
}

// List pages over the tasks of a lambda: live ones first, by partition and time; ended ones after them.
func (in *Inbound) List(ctx context.Context, request *kinesinv1.ListRequest) (*kinesinv1.ListResponse, error) {
	l, err := in.Catalog.Lambda(request.Lambda)
	if err != nil {
		return nil, wire(err)
	}
	list := listing{Inbound: in, lambda: l, limit: int(request.Limit)}
	if list.limit == 0 {
		list.limit = listDefault
	}
	if list.limit < 1 || list.limit > ListMax {
		return nil, invalid("limit %d: want 1 to %d", request.Limit, ListMax)
	}
	if request.State != "" {
		if list.state, err = task.ParseState(request.State); err != nil {
			return nil, invalid("%v", err)
		}
	}
	if len(request.Cursor) > 0 {
		if json.Unmarshal(request.Cursor, &list.place) != nil || list.place.Section > sectionEnd || list.place.Partition < 0 {
			return nil, invalid("cursor: want next_cursor of the page before")
		}
	}
	return list.page(ctx)
}

type listing struct {
	*Inbound
	lambda *catalog.Entry
	state  task.State // Unknown: all
	limit  int
	place  place
	found  []*kinesinv1.Task
}

func (l *listing) page(ctx context.Context) (*kinesinv1.ListResponse, error) {
	partitions := l.lambda.Partitions()
	for range listPagesMax {
		if len(l.found) >= l.limit || l.place.Section >= sectionEnd {
			break
		}
		if l.place.Partition >= len(partitions) || !l.wants(l.place.Section) {
			l.place = place{Section: l.place.Section + 1}
			continue
		}
		more, err := l.read(ctx, partitions[l.place.Partition])
		if err != nil {
			return nil, wire(err)
		}
		if !more {
			l.place = place{Section: l.place.Section, Partition: l.place.Partition + 1}
		}
	}
	response := &kinesinv1.ListResponse{Tasks: l.found}
	if l.place.Section < sectionEnd {
		cursor, err := json.Marshal(l.place)
		if err != nil {
			return nil, err
		}
		response.NextCursor = cursor
	}
	return response, nil
}

// wants reports whether rows of the wanted state can be in a section.
func (l *listing) wants(s section) bool {
	switch {
	case l.state == task.Unknown:
		return true
	case l.state == task.Scheduled: // keyed and snoozed ones have a task row
		return s == inWaiting || s == inWakeups
	case l.state.IsEnd():
		return s == inEnded
	}
	return s == inWakeups
}

// read takes one page of a partition; more says that there may be another.
func (l *listing) read(ctx context.Context, p task.Partition) (more bool, err error) {
	want := l.limit - len(l.found)
	id, _ := task.ParseID(l.place.ID) // the head of the range, when it is not an id
	after := task.Instant(l.place.After)
	var rows []task.Task
	switch l.place.Section {
	case inWaiting:
		rows, err = l.Store.ScanWaiting(ctx, p, store.WaitingKey{Partition: p, Due: after, ID: id}, math.MaxInt64, want)
	case inWakeups:
		rows, err = l.Store.ScanWakeups(ctx, p, store.WakeKey{Wake: after, ID: id}, math.MaxInt64, want)
	case inEnded, sectionEnd:
		rows, l.place.Inner, err = l.Store.ScanEnded(ctx, &p, l.state, l.place.Inner, want)
		more = len(l.place.Inner) > 0
	}
	if err != nil {
		return false, err
	}
	for i := range rows {
		if l.state == task.Unknown || l.state == rows[i].State {
			l.found = append(l.found, l.view(&rows[i]))
		}
	}
	if l.place.Section != inEnded && len(rows) == want {
		last := &rows[len(rows)-1]
		l.place.ID, more = last.ID.String(), true
		l.place.After = int64(last.Due)
		if l.place.Section == inWakeups {
			l.place.After = int64(last.Wake)
		}
	}
	return more, nil
}

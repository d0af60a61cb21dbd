package inbound

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// setRowsRead is how many rows of a set are read at a time, and setRowsMin how many at least: more than
	// are wanted, since not all of them match.
	setRowsRead = 1000
	setRowsMin  = 100
	// setRowsPage bounds the rows that one page of a set looks at.
	setRowsPage = 8 * setRowsRead
	// setReadsPage bounds its reads of the store, since most partitions may be empty. A job holds its lease
	// for longer than so many take.
	setReadsPage = 500
	// dueSlack is how much before its due time the wake-up of a task may be: one that was claimed ahead of it
	// and given back.
	dueSlack = time.Minute
)

var errCursor = refusal.Invalid("cursor: want next of the page before, with the same lambda and state")

// section is the part of the store that holds the row of a listed task.
type section uint8

const (
	inSchedule section = iota // live tasks, by their wake-up rows
	inEnded                   // ended rows
	sectionEnd
)

// place is a position in a set: in which section, after which row.
type place struct {
	Section   section        `json:"s"`
	Partition task.Partition `json:"p"`
	After     int64          `json:"a,omitempty"` // wake of the last wake-up row, in microseconds
	ID        task.ID        `json:"i"`
	Inner     []byte         `json:"c,omitempty"` // cursor of the driver
}

// Page is a part of a set.
type Page struct {
	Rows     []Row
	Next     []byte // position of the next page; empty after the last
	Examined int    // rows that were read
	Seen     int    // of them, those that whoever the selection is for may read; all that he is told of
	Unread   int    // rows that cannot be read, and so may be of the set or not
}

// Page returns a part of a set, live tasks first, after a position that an earlier call returned. It may have
// less than limit rows, or none, although more follow. A task that moves meanwhile may be met at both places,
// or, if it ends, as live and as ended; one that does not change is met once.
func (in *Inbound) Page(ctx context.Context, of *Selection, position []byte, limit int) (Page, error) {
	w := walk{Inbound: in, of: of, limit: limit}
	if len(position) > 0 {
		if json.Unmarshal(position, &w.place) != nil || w.Section > sectionEnd {
			return Page{}, errCursor
		}
	}
	if err := w.run(ctx); err != nil {
		return Page{}, err
	}
	if w.Section < sectionEnd {
		next, err := json.Marshal(w.place)
		if err != nil {
			return Page{}, err
		}
		w.page.Next = next
	}
	return w.page, nil
}

// walk is one call of Page.
type walk struct {
	*Inbound
	place

	of    *Selection
	limit int
	reads int // of the store
	page  Page
}

func (w *walk) run(ctx context.Context) error {
	for w.Section < sectionEnd {
		read := w.live
		if w.Section == inEnded {
			read = w.ended
		}
		if done, err := read(ctx); err != nil || !done {
			return err
		}
		w.place = place{Section: w.Section + 1} // also when the page is full: a section that is over has no position
	}
	return nil
}

func (w *walk) isFull() bool {
	return len(w.page.Rows) >= w.limit || w.page.Examined >= setRowsPage || w.reads >= setReadsPage
}

// live reads live tasks until there are no more, which is done, or the page is full.
func (w *walk) live(ctx context.Context) (done bool, err error) {
	if !w.of.Live {
		return true, nil
	}
	return w.each(w.of.partitions(w.Catalog, liveStates()), func(p task.Partition) (more bool, err error) { return w.readLive(ctx, p) })
}

// ended reads the ended tasks of all lambdas at once, since most stores have no index of them by partition;
// those of one partition after the other if only dead letters are wanted.
func (w *walk) ended(ctx context.Context) (done bool, err error) {
	if !w.of.Ended {
		return true, nil
	}
	state := w.of.endState()
	if state == task.Dead && !w.of.Filter.CanBeOf(deletedLambda) {
		return w.each(w.of.partitions(w.Catalog, []task.State{task.Dead}), func(p task.Partition) (more bool, err error) {
			return w.readEnded(ctx, &p, state)
		})
	}
	for !w.isFull() {
		if more, err := w.readEnded(ctx, nil, state); err != nil || !more {
			return true, err
		}
	}
	return false, nil
}

// each reads partitions in order, from that of the place on, until all are read, which is done, or the page
// is full.
func (w *walk) each(all []task.Partition, read func(task.Partition) (more bool, err error)) (done bool, err error) {
	for _, p := range all {
		switch order := comparePartitions(p, w.Partition); {
		case order < 0:
			continue
		case order > 0:
			w.place = place{Section: w.Section, Partition: p}
		}
		for more := true; more; {
			if w.isFull() {
				return false, nil
			}
			if more, err = read(p); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// readLive reads live tasks of a partition.
func (w *walk) readLive(ctx context.Context, p task.Partition) (more bool, err error) {
	after := store.WakeKey{Wake: task.Instant(w.After), ID: w.ID}
	if from := w.of.Filter.DueFrom().Add(-dueSlack); from > after.Wake {
		after = store.WakeKey{Wake: from}
	}
	limit := min(setRowsRead, max(setRowsMin, 2*(w.limit-len(w.page.Rows))))
	w.reads++
	wakeups, err := w.Store.ScanSchedule(ctx, p, after, cmp.Or(w.of.WakesBy, math.MaxInt64), limit)
	if err != nil {
		return false, err
	}
	all, err := w.tasksBehind(ctx, wakeups)
	if err != nil {
		return false, err
	}
	for i := range all {
		if len(w.page.Rows) >= w.limit {
			return true, nil
		}
		w.page.Examined++
		w.ID, w.After = wakeups[i].ID, int64(wakeups[i].WakeRow.At)
		w.countUnread(&all[i].Task)
		if b := &all[i]; b.isTask() && w.sees(&b.Task) && w.of.has(w.Catalog, &b.Task) {
			w.page.Rows = append(w.page.Rows, b.found)
		}
	}
	return len(wakeups) == limit, nil
}

func (w *walk) readEnded(ctx context.Context, p *task.Partition, state task.State) (more bool, err error) {
	w.reads++
	rows, next, err := w.Store.ScanEnded(ctx, p, state, w.Inner, min(setRowsRead, w.limit-len(w.page.Rows)))
	if errors.Is(err, store.ErrMalformed) {
		return false, errCursor
	}
	w.page.Examined += max(1, len(rows)) // a page may be empty
	for i := range rows {
		w.countUnread(&rows[i])
		if w.sees(&rows[i]) && w.of.has(w.Catalog, &rows[i]) {
			w.page.Rows = append(w.page.Rows, found{Task: rows[i]})
		}
	}
	w.Inner = next
	return len(next) > 0, err
}

// sees reports whether whoever the selection is for may read a task, and counts it then.
func (w *walk) sees(t *task.Task) bool {
	lambda, _ := namesOf(w.Catalog, t.Partition)
	sees := w.of.By.AllowIn(access.Read, lambda, t.Collection)
	if sees {
		w.page.Seen++
	}
	return sees
}

func (w *walk) countUnread(t *task.Task) {
	if !t.ID.IsZero() && t.State == task.Unknown {
		w.page.Unread++
	}
}

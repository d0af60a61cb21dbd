package inbound

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/where"
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

// Selection is a set of tasks: those that a filter selects and that somebody may read.
type Selection struct {
	Filter *where.Filter
	By     access.Grants  // what may be read
	Lambda *catalog.Entry // nil: of all lambdas
	State  task.State     // Unknown: in all states
	// Live and Ended say which tasks are looked at.
	Live, Ended bool
	// EndedBy leaves out what ended later; 0: nothing.
	EndedBy task.Instant
	// WakesBy leaves out live tasks whose wake-up row is of later; 0: none.
	WakesBy task.Instant
	// Only leaves out what it is false of; nil: nothing.
	Only func(t *task.Task) bool

	oneShard bool // of each lambda and priority, for estimates
}

// Row is a task of a set as it was found, for the calls that change it.
type Row = found

// Page is a part of a set.
type Page struct {
	Rows     []Row
	Next     []byte // position of the next page; empty after the last
	Examined int    // rows that were read
	Unread   int    // rows that cannot be read, and so may be of the set or not
}

// place is a position in a set: in which section, after which row.
type place struct {
	Section   section        `json:"s"`
	Partition task.Partition `json:"p"`
	After     int64          `json:"a,omitempty"` // wake of the last wake-up row, in microseconds
	ID        task.ID        `json:"i"`
	Inner     []byte         `json:"c,omitempty"` // cursor of the driver
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
		if b := &all[i]; b.isTask() && w.of.has(w.Catalog, &b.Task) {
			w.page.Rows = append(w.page.Rows, b.found)
		}
	}
	return len(wakeups) == limit, nil
}

// isTask reports whether there is a live task behind a wake-up row.
func (b *behind) isTask() bool {
	return b.conclusion != store.Leftover && b.conclusion != store.Unclear && !b.ID.IsZero()
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
		if w.of.has(w.Catalog, &rows[i]) {
			w.page.Rows = append(w.page.Rows, found{Task: rows[i]})
		}
	}
	w.Inner = next
	return len(next) > 0, err
}

func (w *walk) countUnread(t *task.Task) {
	if !t.ID.IsZero() && t.State == task.Unknown {
		w.page.Unread++
	}
}

// has reports whether a task is in the set.
func (s *Selection) has(c *catalog.Catalog, t *task.Task) bool {
	lambda, priority := namesOf(c, t.Partition)
	switch {
	case t.Forgotten,
		s.Lambda != nil && s.Lambda.Ref != t.Partition.Lambda,
		s.State != task.Unknown && s.State != t.State,
		s.EndedBy != 0 && t.Ended > s.EndedBy,
		!s.By.AllowIn(access.Read, lambda, t.Collection):
		return false
	}
	return s.Filter.Matches(lambda, priority, t) && (s.Only == nil || s.Only(t))
}

// namesOf returns the names of the lambda and the priority of a partition.
func namesOf(c *catalog.Catalog, p task.Partition) (lambda, priority string) {
	l := c.ByRef(p.Lambda)
	if l == nil {
		return deletedLambda, ""
	}
	if int(p.Priority) < len(l.Priorities) {
		priority = l.Priorities[p.Priority]
	}
	return l.Name, priority
}

// partitions returns those, in order, that may have tasks of the set in one of some states.
func (s *Selection) partitions(c *catalog.Catalog, states []task.State) (all []task.Partition) {
	if s.State != task.Unknown {
		if !slices.Contains(states, s.State) {
			return nil
		}
		states = []task.State{s.State}
	}
	for _, l := range c.All() {
		if s.Lambda != nil && s.Lambda.Ref != l.Ref || !s.By.AllowSome(access.Read, l.Name) || !s.Filter.CanBeOf(l.Name) {
			continue
		}
		for _, p := range l.Partitions() {
			if s.oneShard && p.Shard > 0 {
				continue
			}
			if s.Filter.CanBe(l.Name, l.Priorities[p.Priority], states...) {
				all = append(all, p)
			}
		}
	}
	slices.SortFunc(all, comparePartitions)
	return all
}

func comparePartitions(a, b task.Partition) int {
	return cmp.Or(cmp.Compare(a.Lambda, b.Lambda), cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Shard, b.Shard))
}

// endState returns the only end in which tasks of the set can be; Unknown if there are several.
func (s *Selection) endState() (only task.State) {
	for _, end := range task.States() {
		if !end.IsEnd() || !s.canBe(end) {
			continue
		}
		if only != task.Unknown {
			return task.Unknown
		}
		only = end
	}
	return only
}

// canBe reports whether tasks of the set can be in a state.
func (s *Selection) canBe(state task.State) bool {
	if s.State != task.Unknown && s.State != state {
		return false
	}
	t := task.Task{State: state}
	return s.Filter.Decide(&where.Subject{Task: &t, Known: where.KnowState}) != where.Never
}

// narrowed leaves out the live or the ended tasks where none of them can be in the set.
func (s Selection) narrowed() Selection {
	anyOf := func(isEnd bool) bool {
		return slices.ContainsFunc(task.States(), func(t task.State) bool { return t.IsEnd() == isEnd && s.canBe(t) })
	}
	s.Live, s.Ended = s.Live && anyOf(false), s.Ended && anyOf(true)
	return s
}

func liveStates() (live []task.State) {
	for _, s := range task.States() {
		if !s.IsEnd() {
			live = append(live, s)
		}
	}
	return live
}

package inbound

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// newestExaminedMax bounds the rows that a list of the newest tasks may ask to have read.
	newestExaminedMax = 2_000_000
	// newestExaminedDefault bounds them where it does not ask, and where a list without an order looks for the newest.
	newestExaminedDefault = 200_000
)

// newest lists the newest tasks of a set first, by their end or by when they were created. No store has an
// index of either, so it reads all tasks of the set, and keeps where the newest of them are for the pages to
// come. A page at another server, or long after the last, reads them again.
func (in *Inbound) newest(ctx context.Context, of *Selection, list newestList, position []byte, limit int) (page Page, err error) {
	var at place
	if len(position) > 0 && json.Unmarshal(position, &at) != nil {
		return page, errCursor
	}
	after := newestKey{task.Instant(at.After), task.Token{ID: at.ID}}
	if at.After == 0 {
		after.at = math.MaxInt64 // before all
	}
	rest, isKept := in.newestLists.rest(list, after)
	if !isKept {
		rest.after = after
		if page.Examined, err = in.readNewest(ctx, of, &rest); err != nil {
			return page, err
		}
		if !rest.isAll || len(rest.keys) > limit {
			in.newestLists.keep(rest)
		}
	}
	for len(page.Rows) < limit && len(rest.keys) > 0 {
		some := rest.keys[:min(len(rest.keys), limit-len(page.Rows))]
		tokens := make([]task.Token, len(some))
		for i := range some {
			tokens[i] = some[i].token
		}
		rows, err := in.rows(ctx, tokens)
		if err != nil {
			return page, err
		}
		for i := range rows {
			if t := &rows[i].Task; !t.ID.IsZero() && (t.State.IsEnd() || !list.ends) && list.at(t) == some[i].at && of.has(in.Catalog, t) { // else it has changed
				page.Rows = append(page.Rows, rows[i])
			}
		}
		after, rest.keys = some[len(some)-1], rest.keys[len(some):]
	}
	if len(rest.keys) > 0 || !rest.isAll {
		page.Next, err = json.Marshal(place{After: int64(after.at), ID: after.token.ID})
	}
	return page, err
}

// readNewest reads all tasks of a set into a list, of which it keeps the newest after one of them.
func (in *Inbound) readNewest(ctx context.Context, of *Selection, list *newestList) (examined int, err error) {
	leave, err := in.enterWholeSet(ctx)
	if err != nil {
		return 0, err
	}
	defer leave()
	set := *of
	set.Live = of.Live && !list.ends
	list.isAll = true
	keep := func() {
		slices.SortFunc(list.keys, compareNewest)
		// A task that ends meanwhile is met as live and as ended.
		list.keys = slices.CompactFunc(list.keys, func(a, b newestKey) bool { return compareNewest(a, b) == 0 })
		if len(list.keys) > newestKeptMax {
			list.keys, list.isAll = list.keys[:newestKeptMax], false
		}
	}
	var position []byte
	for more := true; more; {
		part, err := in.Page(ctx, &set, position, setRowsRead)
		if err != nil {
			return examined, err
		}
		if examined += part.Examined; examined > list.most {
			return examined, list.tooMany()
		}
		for i := range part.Rows {
			t := &part.Rows[i].Task
			if key := (newestKey{list.at(t), task.TokenOf(t)}); compareNewest(key, list.after) > 0 {
				list.keys = append(list.keys, key)
			}
		}
		if position, more = part.Next, len(part.Next) > 0; len(list.keys) > 2*newestKeptMax {
			keep()
		}
	}
	keep()
	return examined, nil
}

const (
	// newestKeptMax is how many of the newest tasks are kept for the next pages of a list, of 64 bytes each,
	// and newestListsMax for how many lists.
	newestKeptMax  = 50_000
	newestListsMax = 8
	// manyKnownFor is how long it is remembered that a list is too long to find the newest of it cheaply, and
	// manyListsMax of how many lists.
	manyKnownFor = 5 * time.Minute
	manyListsMax = 64
)

// newestKey is where a task is in a list of the newest tasks: when it was created or has ended. Its token
// finds its rows.
type newestKey struct {
	at    task.Instant
	token task.Token
}

func compareNewest(a, b newestKey) int {
	return cmp.Or(cmp.Compare(b.at, a.at), bytes.Compare(a.token.ID[:], b.token.ID[:]))
}

// newestList is a part of a list of tasks, the newest first: those after one of them.
type newestList struct {
	name  string       // says what is listed
	began task.Instant // when; durations in the filter count from then
	ends  bool         // it is one of ended tasks by their end, else of all tasks by when they were created
	after newestKey
	keys  []newestKey
	isAll bool // there are none behind them
	most  int  // rows to read for it
}

// at returns the time of a task by which it is listed.
func (l *newestList) at(t *task.Task) task.Instant {
	if l.ends {
		return t.Ended
	}
	return t.Created
}

// tooMany refuses a list that would have to read too much.
func (l *newestList) tooMany() error {
	return api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED,
		"more than %d tasks would have to be read to find the newest: name lambdas, priorities or states in the filter, leave out the order, or have up to %d read (max_examined)",
		l.most, newestExaminedMax)
}

// newestLists keeps the newest parts that were read. It is safe for concurrent use.
type newestLists struct {
	mu   sync.Mutex
	all  []newestList            // the newest one last
	many map[string]task.Instant // lists that were too long, by name, and when that was found
}

// isMany reports whether a list was too long a while ago.
func (l *newestLists) isMany(name string, now task.Instant) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, is := l.many[name]
	return is && now < found.Add(manyKnownFor)
}

// noteMany remembers that a list is too long, so that others like it need not read so far to find that out.
func (l *newestLists) noteMany(name string, now task.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.many == nil || len(l.many) >= manyListsMax {
		l.many = map[string]task.Instant{}
	}
	l.many[name] = now
}

// rest returns the part of a list that is kept and that goes on after a key, from there on.
func (l *newestLists) rest(of newestList, after newestKey) (newestList, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, kept := range l.all {
		if kept.name != of.name || kept.began != of.began || compareNewest(after, kept.after) < 0 {
			continue
		}
		at, is := slices.BinarySearchFunc(kept.keys, after, compareNewest)
		if is {
			at++
		}
		if kept.keys = kept.keys[at:]; kept.isAll || len(kept.keys) > 0 {
			return kept, true
		}
	}
	return of, false
}

func (l *newestLists) keep(one newestList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all = append(l.all, one); len(l.all) > newestListsMax {
		l.all = slices.Delete(l.all, 0, 1)
	}
}

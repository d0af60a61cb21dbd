package inbound

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"sync"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// endedExaminedMax bounds the rows that a list of the newest ended tasks reads.
	endedExaminedMax = 2_000_000
	// endedKeptMax is how many of the newest tasks are kept for the next pages of a list, of 24 bytes each,
	// and endedListsMax for how many lists.
	endedKeptMax  = 50_000
	endedListsMax = 8
)

// endedKey is where a task is in a list of ended tasks, the newest end first.
type endedKey struct {
	ended task.Instant
	id    task.ID
}

func compareEnded(a, b endedKey) int {
	return cmp.Or(cmp.Compare(b.ended, a.ended), bytes.Compare(a.id[:], b.id[:]))
}

// endedList is a part of a list of ended tasks: the newest ones after one of them.
type endedList struct {
	name  string       // says what is listed
	began task.Instant // when; durations in the filter count from then
	after endedKey
	keys  []endedKey
	isAll bool // there are none behind them
	most  int  // rows to read for it
}

var errTooManyEnded = api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED,
	"more than %d ended tasks would have to be read to find the newest: ask for state=dead of a lambda, or leave out the order", endedExaminedMax)

// endedLists keeps the newest parts that were read. It is safe for concurrent use.
type endedLists struct {
	mu  sync.Mutex
	all []endedList // the newest one last
}

// rest returns the part of a list that is kept and that goes on after a key, from there on.
func (l *endedLists) rest(of endedList, after endedKey) (endedList, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, kept := range l.all {
		if kept.name != of.name || kept.began != of.began || compareEnded(after, kept.after) < 0 {
			continue
		}
		at, is := slices.BinarySearchFunc(kept.keys, after, compareEnded)
		if is {
			at++
		}
		if kept.keys = kept.keys[at:]; kept.isAll || len(kept.keys) > 0 {
			return kept, true
		}
	}
	return of, false
}

func (l *endedLists) keep(one endedList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all = append(l.all, one); len(l.all) > endedListsMax {
		l.all = slices.Delete(l.all, 0, 1)
	}
}

// newestEnded lists ended tasks, the newest end first. No store has an index of all ends by time, so it reads
// all ended tasks of the set, and keeps where the newest of them are for the pages to come. A page at another
// server, or long after the last, reads them again.
func (in *Inbound) newestEnded(ctx context.Context, of *Selection, list endedList, position []byte, limit int) (page Page, err error) {
	var at place
	if len(position) > 0 && json.Unmarshal(position, &at) != nil {
		return page, errCursor
	}
	after := endedKey{task.Instant(at.After), at.ID}
	if at.After == 0 {
		after.ended = math.MaxInt64 // before all
	}
	rest, isKept := in.endedLists.rest(list, after)
	if !isKept {
		rest.after = after
		if page.Examined, err = in.readNewest(ctx, of, &rest); err != nil {
			return page, err
		}
		if !rest.isAll || len(rest.keys) > limit {
			in.endedLists.keep(rest)
		}
	}
	for len(page.Rows) < limit && len(rest.keys) > 0 {
		some := rest.keys[:min(len(rest.keys), limit-len(page.Rows))]
		ids := make([]task.ID, len(some))
		for i, key := range some {
			ids[i] = key.id
		}
		rows, err := in.Store.Tasks(ctx, ids)
		if err != nil {
			return page, err
		}
		for i := range rows {
			if rows[i].State.IsEnd() && rows[i].Ended == some[i].ended && of.has(in.Catalog, &rows[i]) { // else it has changed
				page.Rows = append(page.Rows, found{Task: rows[i]})
			}
		}
		after, rest.keys = some[len(some)-1], rest.keys[len(some):]
	}
	if len(rest.keys) > 0 || !rest.isAll {
		page.Next, err = json.Marshal(place{After: int64(after.ended), ID: after.id})
	}
	return page, err
}

// readNewest reads all ended tasks of a set into a list, of which it keeps the newest after one of them.
func (in *Inbound) readNewest(ctx context.Context, of *Selection, list *endedList) (examined int, err error) {
	leave, err := in.enterWholeSet()
	if err != nil {
		return 0, err
	}
	defer leave()
	ended := *of
	ended.Live = false
	list.isAll = true
	keep := func() {
		slices.SortFunc(list.keys, compareEnded)
		if len(list.keys) > endedKeptMax {
			list.keys, list.isAll = list.keys[:endedKeptMax], false
		}
	}
	var position []byte
	for more := true; more; {
		part, err := in.Page(ctx, &ended, position, setRowsRead)
		if err != nil {
			return examined, err
		}
		if examined += part.Examined; examined > list.most {
			return examined, errTooManyEnded
		}
		for i := range part.Rows {
			if key := (endedKey{part.Rows[i].Ended, part.Rows[i].ID}); compareEnded(key, list.after) > 0 {
				list.keys = append(list.keys, key)
			}
		}
		if position, more = part.Next, len(part.Next) > 0; len(list.keys) > 2*endedKeptMax {
			keep()
		}
	}
	keep()
	return examined, nil
}

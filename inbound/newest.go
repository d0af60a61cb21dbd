package inbound

import (
	"context"
	"encoding/json"
	"math"
	"slices"

	"github.com/kinesin-io/kinesin/task"
)

// newestExaminedMax bounds the rows that a list of the newest tasks reads.
const newestExaminedMax = 2_000_000

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

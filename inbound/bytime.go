package inbound

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/kinesin-io/kinesin/api"
)

// partitionsCheap bounds the partitions of a page of live tasks that is sorted, which reads each of them.
const partitionsCheap = 400

// phase is how the next page of a list without an order is read.
type phase uint8

const (
	liveByDue phase = iota
	endedNewest
	endedAsStored
	allAsStored
)

// timePlace is a position in a list without an order.
type timePlace struct {
	Phase phase           `json:"o"`
	Place json.RawMessage `json:"p,omitempty"`
}

// byTime lists a set without an order: live tasks by when they are due next, and then ended ones, the newest
// end first. Ended tasks that are too many to find the newest of them cheaply come as the store has them, and
// so does everything of very many partitions, or where each row that is read costs money.
func (in *Inbound) byTime(ctx context.Context, of *Selection, list newestList, position []byte, limit int) (page Page, err error) {
	var at timePlace
	switch {
	case len(position) > 0:
		if json.Unmarshal(position, &at) != nil || at.Phase > allAsStored {
			return page, errCursor
		}
	case in.Store.EndedExpire() || len(of.partitions(in.Catalog, liveStates())) > partitionsCheap:
		at.Phase = allAsStored
	}
	switch at.Phase {
	case allAsStored:
		page, err = in.Page(ctx, of, at.Place, limit)
		if at.Place = page.Next; err != nil || len(page.Next) == 0 {
			return page, err
		}
	case liveByDue:
		if page, err = in.byDue(ctx, of, at.Place, limit); err != nil {
			return page, err
		}
		if at.Place = page.Next; len(page.Next) == 0 {
			at.Phase = endedNewest
		}
	case endedNewest, endedAsStored: // below, as after the last live task
	}
	if at.hasLeftLive() && of.Ended && len(page.Rows) < limit {
		ended, err := in.endedByTime(ctx, of, list, &at, limit-len(page.Rows))
		if err != nil || len(ended.Next) == 0 {
			ended.Rows = append(page.Rows, ended.Rows...)
			return ended, err
		}
		page.Rows, at.Place = append(page.Rows, ended.Rows...), ended.Next
	}
	if page.Next = nil; !at.hasLeftLive() || of.Ended {
		page.Next, err = json.Marshal(at)
	}
	return page, err
}

// hasLeftLive reports whether the live tasks are listed, and what follows are ended ones alone.
func (p *timePlace) hasLeftLive() bool { return p.Phase == endedNewest || p.Phase == endedAsStored }

// endedByTime lists ended tasks from a place on: the newest first if these are found cheaply, otherwise in the order of the
// store. A list that was too long a while ago is not tried again.
func (in *Inbound) endedByTime(ctx context.Context, of *Selection, list newestList, at *timePlace, limit int) (Page, error) {
	isFirst := len(at.Place) == 0
	if at.Phase == endedNewest && (!isFirst || !in.newestLists.isMany(list.name, in.Clock.Now())) {
		if list.most = newestExaminedMax; isFirst {
			list.most = newestExaminedDefault
		}
		page, err := in.newest(ctx, of, list, at.Place, limit)
		switch isMany := errors.Is(err, api.ErrUnsupported); {
		case !isFirst || !isMany && !errors.Is(err, api.ErrFull):
			return page, err
		case isMany:
			in.newestLists.noteMany(list.name, in.Clock.Now())
		}
	}
	at.Phase = endedAsStored
	ended := *of
	ended.Live = false
	return in.Page(ctx, &ended, at.Place, limit)
}

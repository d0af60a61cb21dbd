package scheduler

import (
	"context"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// scanPagesMax bounds the pages that a scan of wake-ups reads at once. Where more rows are watched than fit into them, what is due
// is fired before it goes on.
const scanPagesMax = 4

// wakeScan is how far a scan of wake-ups has come that is not at its end.
type wakeScan struct {
	underWay bool
	after    store.WakeKey // where it goes on
	rising   bool          // all rows from the floor to there are watched
}

// scanWakeups pages over rows that are watched, however many they are, until it has all up to the instant or as many as the
// look-ahead holds. A scan that is due begins behind the floor; otherwise the last one goes on.
func (r *runner) scanWakeups(ctx context.Context, now, through task.Instant, due bool) error {
	scan := r.pages
	// What was put out of a full look-ahead lies behind the scan: it has to begin anew.
	goesOn := !due && scan.underWay && r.wakeups.covers(scan.after.Wake-1)
	if !goesOn {
		scan = wakeScan{underWay: true, after: r.floor.start(now), rising: true}
	}
	room := r.wakeups.limit
	if goesOn {
		room -= r.wakeups.entries.Len()
	}
	before := r.wakeups.reach(through)
	found, err := r.readWakeups(ctx, &scan, now, through, room)
	if err != nil {
		r.wakeups.reach(before)
		return err
	}
	if goesOn {
		r.wakeups.resume(through)
	} else {
		r.emptyWakeups(now, through)
	}
	for i := range found {
		r.addWakeup(&found[i])
	}
	if scan.underWay {
		r.wakeups.lower(scan.after.Wake - 1) // more may wake with the last one
	}
	r.pages = scan
	return nil
}

// readWakeups reads on from where a scan is, and returns up to room rows that are not watched.
func (r *runner) readWakeups(ctx context.Context, scan *wakeScan, now, through task.Instant, room int) (found []task.Task, err error) {
	for pages := 0; pages < scanPagesMax && len(found) < room; pages++ {
		limit := room - len(found)
		page, err := r.Store.ScanWakeups(ctx, r.partition, scan.after, through, limit)
		r.progress.mark(r.Clock)
		if err != nil {
			return nil, err
		}
		for i := range page {
			if known := r.watch.knows(&page[i]); !known {
				scan.rising = false
				found = append(found, page[i])
			} else if scan.rising {
				r.floor.rise(wakeKey(&page[i]), now)
			}
		}
		if len(page) < limit {
			scan.underWay = false
			break
		}
		scan.after = wakeKey(&page[len(page)-1])
	}
	return found, nil
}

// scanGoesOn reports whether there is more to read of wake-ups, and room for it.
func (r *runner) scanGoesOn() bool {
	return r.pages.underWay && r.wakeups.low() && !r.turn.asks() && !r.scanWaits(r.Clock.Now())
}

// emptyWakeups makes room in the look-ahead for what a scan found, and keeps what the index may not show yet.
func (r *runner) emptyWakeups(now, through task.Instant) {
	waiting := r.recent[:0] // those that have not fired
	for _, e := range r.recent {
		if now < e.until && r.wakeups.has(e.entry) {
			waiting = append(waiting, e)
		}
	}
	r.recent = waiting
	r.wakeups.open(through)
	for _, e := range r.recent {
		if r.wakeups.covers(e.at) {
			r.wakeups.add(e.entry)
		}
	}
}

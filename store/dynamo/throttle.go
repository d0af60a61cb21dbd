package dynamo

import (
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Backoff of what DynamoDB put off for want of capacity. Waits are drawn from 0 to a bound that doubles.
const (
	backoffMin = 20 * time.Millisecond
	backoffMax = 2 * time.Second
	// throttleMax is how long a write or a read is tried again before its caller hears of it.
	throttleMax = 8 * time.Second
	// windowFirst is how many writes of a throttled group are sent at once at first.
	windowFirst = 8
)

// groupKey names the writes that one key of a table, or of its index, may hold up.
type groupKey struct {
	table     *string
	partition task.Partition
}

// group paces the writes of a key that was throttled a moment ago: the others do not wait for it.
type group struct {
	held   []*write
	moved  task.Instant // when one of its writes came through, or the first was throttled
	window int          // writes that may be under way at once
	under  int          // writes under way
	fails  uint         // in a row
	waits  bool         // a timer is set
}

// backoff is the nth wait in a row.
func backoff(c clock.Clock, n uint) time.Duration {
	bound := min(backoffMin<<min(n, 16), backoffMax)
	return time.Duration(c.Uint64() % uint64(bound))
}

// throttled holds back a write that was put off, or gives it up. The caller holds mu.
func (d *Driver) throttled(w *write) {
	q := &d.writes
	if d.cfg.Observer.Throttled != nil {
		d.cfg.Observer.Throttled(*w.shape.table)
	}
	now := d.cfg.Clock.Now()
	w.tries++
	if w.since == 0 {
		w.since = now
	}
	g := q.groups[w.group]
	if g == nil {
		if q.groups == nil {
			q.groups = map[groupKey]*group{}
		}
		g = &group{window: windowFirst, moved: now}
		q.groups[w.group] = g
	}
	if w.paced != nil {
		w.paced, g.under = nil, g.under-1
	}
	d.pause(w.group, g)
	if waited := now.Sub(w.since); waited > throttleMax || q.deferral.closing {
		d.settle(w, fmt.Errorf("%w: table %s put off a write of partition %s %d times in %v", store.ErrThrottled, *w.shape.table, w.group.partition, w.tries, waited))
		return
	}
	g.held = append(g.held, w)
}

// pause lets a group wait before any more of it is sent. Throttles that come in while it waits are of the same burst.
func (d *Driver) pause(key groupKey, g *group) {
	if g.waits {
		return
	}
	g.waits = true
	g.window = max(1, g.window/2)
	wait := backoff(d.cfg.Clock, g.fails)
	g.fails++
	d.running.Go(func() {
		_ = clock.Sleep(d.base, d.cfg.Clock, wait)
		d.writes.mu.Lock()
		defer d.writes.mu.Unlock()
		g.waits = false
		d.giveUp(g)
		d.release(g)
		d.drop(key, g)
		d.pump()
	})
}

// giveUp ends the writes that were held back for too long by a group of which nothing comes through: one by one, each
// would be tried only when those before it had been. The caller holds mu.
func (d *Driver) giveUp(g *group) {
	now := d.cfg.Clock.Now()
	if now.Sub(g.moved) <= throttleMax {
		return
	}
	var over []*write
	g.held = slices.DeleteFunc(g.held, func(w *write) bool {
		late := now.Sub(w.since) > throttleMax
		if late {
			over = append(over, w)
		}
		return late
	})
	for _, w := range over {
		d.settle(w, fmt.Errorf("%w: table %s took no write of partition %s for %v", store.ErrThrottled, *w.shape.table, w.group.partition, now.Sub(g.moved)))
	}
}

// release sends what the window of a group has room for. The caller holds mu.
func (d *Driver) release(g *group) {
	n := 0
	for ; n < len(g.held) && !g.waits && g.under < g.window; n++ {
		w := g.held[n]
		w.paced = g
		g.under++
		d.enqueue(w)
	}
	g.held = shifted(g.held, n)
}

// paceDone notes that a write of a group came through, or failed for another reason. The caller holds mu.
func (d *Driver) paceDone(w *write) {
	g := w.paced
	if g == nil {
		return
	}
	w.paced = nil
	g.under--
	g.window++
	g.fails = 0
	g.moved = d.cfg.Clock.Now()
	d.release(g)
	d.drop(w.group, g)
}

// drop forgets a group that holds nothing back any more.
func (d *Driver) drop(key groupKey, g *group) {
	if g.under == 0 && len(g.held) == 0 && !g.waits {
		delete(d.writes.groups, key)
	}
}

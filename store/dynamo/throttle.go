package dynamo

import (
	"fmt"
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
)

// backoff is the nth wait in a row.
func backoff(c clock.Clock, n uint) time.Duration {
	bound := min(backoffMin<<min(n, 16), backoffMax)
	return time.Duration(c.Uint64() % uint64(bound))
}

// groupKey names the writes that one key of a table, or of its index, may hold up.
type groupKey struct {
	table     *string
	partition task.Partition
}

// throttledKey holds back the writes of a key that was throttled; the others do not wait for it. They are
// tried again in rounds, each after a backoff, and each of twice as many writes as came through in the one
// before, and one.
type throttledKey struct {
	held    []*write
	open    int          // writes of the round that are not answered
	through int          // of the round
	failed  uint         // rounds in a row of which nothing came through
	waits   bool         // for the next round
	moved   task.Instant // when a write came through, or the first was throttled
}

// admit makes a write ready, or holds it back with its throttled key. The caller holds mu.
func (d *Driver) admit(w *write) {
	if k := d.writes.throttled[w.group]; k != nil {
		w.since = clock.Steady(d.cfg.Clock)
		k.held = append(k.held, w)
		return
	}
	d.enqueue(w)
}

// putOff holds back a write that was throttled, or gives it up. The caller holds mu.
func (d *Driver) putOff(w *write) {
	q := &d.writes
	if d.cfg.Observer.Throttled != nil {
		d.cfg.Observer.Throttled(*w.shape.table)
	}
	now := clock.Steady(d.cfg.Clock)
	w.tries++
	if w.since == 0 {
		w.since = now
	}
	if waited := now.Sub(w.since); waited > throttleMax || q.deferral.closing {
		d.settle(w, fmt.Errorf("%w: table %s put off a write of partition %s %d times in %v", store.ErrThrottled, *w.shape.table, w.group.partition, w.tries, waited))
		return
	}
	k := q.throttled[w.group]
	if k == nil {
		k = &throttledKey{moved: now}
		if q.throttled == nil {
			q.throttled = map[groupKey]*throttledKey{}
		}
		q.throttled[w.group] = k
	}
	k.held = append(k.held, w)
	d.leaveRound(w, false)
	d.awaitRound(w.group, k)
}

// leaveRound notes that a write of a round has its answer, and ends the round with the last. The caller holds
// mu.
func (d *Driver) leaveRound(w *write, through bool) {
	k := w.round
	if k == nil {
		return
	}
	w.round = nil
	k.open--
	if through {
		k.through++
		k.moved = clock.Steady(d.cfg.Clock)
	}
	if k.open > 0 {
		return
	}
	if k.failed++; k.through > 0 {
		k.failed = 0
	}
	d.awaitRound(w.group, k)
}

// awaitRound begins a round when its backoff is over, or forgets a key that holds nothing back. The caller
// holds mu.
func (d *Driver) awaitRound(key groupKey, k *throttledKey) {
	switch {
	case k.waits || k.open > 0:
		return
	case len(k.held) == 0:
		delete(d.writes.throttled, key)
		return
	}
	k.waits = true
	wait := backoff(d.cfg.Clock, k.failed)
	d.running.Go(func() {
		_ = clock.Sleep(d.base, d.cfg.Clock, wait)
		d.writes.mu.Lock()
		defer d.writes.mu.Unlock()
		k.waits = false
		d.giveUp(k)
		d.beginRound(k)
		d.awaitRound(key, k)
		d.pump()
	})
}

func (d *Driver) beginRound(k *throttledKey) {
	n := min(2*k.through+1, len(k.held))
	round := k.held[:n]
	k.open, k.through = n, 0
	for _, w := range round {
		w.round, w.linger = k, 0
		d.enqueue(w)
	}
	k.held = shifted(k.held, n)
}

// giveUp ends the writes that were held back for too long by a key of which nothing comes through: one by
// one, each would be tried only when those before it had been. The caller holds mu.
func (d *Driver) giveUp(k *throttledKey) {
	now := clock.Steady(d.cfg.Clock)
	if now.Sub(k.moved) <= throttleMax {
		return
	}
	held := k.held
	k.held = nil
	for _, w := range held {
		if now.Sub(w.since) <= throttleMax {
			k.held = append(k.held, w)
			continue
		}
		d.settle(w, fmt.Errorf("%w: table %s took no write of partition %s for %v", store.ErrThrottled, *w.shape.table, w.group.partition, now.Sub(k.moved)))
	}
}

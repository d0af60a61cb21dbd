package scheduler

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/internal/gates"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// A lambda may limit how many tasks of each limit key run at once, and how many start per second. All tasks
// of a key are in one shard, whose owner counts them by what it has in flight. A row whose key has no slot is
// passed over like one that a gate holds (held.go): the schedule keeps it, and it takes no room from others.
// Besides, each key has a short list of its first rows in memory, so that a slot that becomes free is used at
// once. See docs/adr/0040.

const (
	// keyPassPagesMax bounds the pages of one pass that fills the list of a key: others that ran low have
	// their turn.
	keyPassPagesMax = 8
	// keyPassEvery is how far apart passes are that look for rows of keys for which there was no memory.
	keyPassEvery = time.Second
	// keyPassWait is when a pass goes on that waits for room in the buffer.
	keyPassWait = 20 * time.Millisecond
	// keyCountEvery is how often the rows are counted that keys hold back.
	keyCountEvery = 5 * time.Second
)

// loopKeys is what a loop has of the limits by key of its lambda.
type loopKeys struct {
	slots   *keySlots
	waiter  *keyWaiter
	queue   *keyQueue
	limits  keyLimits
	taken   map[task.ID]*keyStart // slots that the round has taken
	told    []string              // keys of which this loop was told that a slot is free
	retry   task.Instant          // when rows are taken again after a read has failed
	blocked bool                  // the last round lacked room or a quota for keys that were ready
	page    task.Instant          // when the next page of a pass may be read
	again   task.Instant          // when a pass may look again for keys without a list
	counted task.Instant          // when stats.heldByKey is counted again

	heldReady int // rows whose keys were ready then, and that waited for something else
}

// keyStart is a slot that a round has taken for a task.
type keyStart struct {
	key   string
	mayGo bool // a gate that resumes at a pace has let the task go
	made  bool // the task was started: what is in flight counts it
}

// keySlotsOf returns the counts of a lambda, which its loops share.
func (s *shared) keySlotsOf(lambda uint32) *keySlots {
	if known, ok := s.keySlots.Load(lambda); ok {
		return known.(*keySlots) //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	one, _ := s.keySlots.LoadOrStore(lambda, newKeySlots())
	return one.(*keySlots) //nolint:errcheck,forcetypeassert // nothing else is stored
}

// KeyUse returns how many tasks of a limit key are enqueued or run, as far as this process counts them, and
// the limits that it knows; false where it does not count them.
func (s *Scheduler) KeyUse(p task.Partition, key string) (used, atOnce int, ok bool) {
	l := s.loopOf(p)
	if l == nil || !l.limitsKeys.Load() {
		return 0, 0, false
	}
	used, limits := s.keySlotsOf(p.Lambda).look(key)
	return used, limits.atOnce, true
}

// followLimits notes at the begin of a round whether the lambda limits its limit keys. Without that it costs
// a look into a map.
func (l *loop) followLimits() {
	if l.KeyLimits == nil || l.delivers {
		return
	}
	atOnce, rate, weighted := l.KeyLimits(l.partition.Lambda)
	limits := keyLimitsOf(atOnce, rate)
	switch {
	case !limits.isSet() || l.foreign:
		if l.keys != nil {
			l.closeKeys()
			l.held.forget()
			l.readAnew(l.now())
		}
		return
	case l.keys == nil:
		l.openKeys()
	}
	l.keys.slots.set(limits, weighted)
	if l.keys.limits != limits {
		l.keys.limits = limits
		l.keys.queue.freedAll()
	}
}

// openKeys begins to limit keys, and counts what is in flight. Tasks that wait in the buffer go to the lists
// when they are due.
func (l *loop) openKeys() {
	l.keys = &loopKeys{
		slots: l.keySlotsOf(l.partition.Lambda), queue: newKeyQueue(l.keyRowsLimit, l.buffer.limit), taken: map[task.ID]*keyStart{},
		waiter: &keyWaiter{class: l.partition.Priority, wake: func() { notify(l.wake) }},
	}
	l.limitsKeys.Store(true)
	l.inFlight.countKeys(l.keys.slots)
	if l.held.every == 0 && l.Gating != nil {
		l.held.every = l.heldPassEvery()
	}
}

// closeKeys ends that.
func (l *loop) closeKeys() {
	if l.keys == nil {
		return
	}
	l.inFlight.countKeys(nil)
	l.endKeyRound()
	l.keys.slots.leave(l.keys.waiter)
	l.keys.queue.clear()
	l.keys = nil
	l.limitsKeys.Store(false)
	l.stats.heldByKey.Store(0)
}

// isKeyLimited reports whether the limits by key apply to a task now. They do not to one that has expired.
func (l *loop) isKeyLimited(t *task.Task) bool {
	return l.keys != nil && t.LimitKey != "" && !t.IsExpired(l.now())
}

// listsRow takes a wake-up row into the list of its key, or leaves it in the schedule; false if its key has
// no limit, or something else is to be done with it first.
func (l *loop) listsRow(row *task.Task) bool {
	if !l.isKeyLimited(row) || l.gateOf(row, l.now()) != nil {
		return false
	}
	mustRead, _ := l.mustRead(row)
	l.offerRow(row, keyRow{due: row.WakeRow.At, mustRead: mustRead}, keyKnown)
	return true
}

// offerRow takes a row into the list of its key, or leaves it in the schedule.
func (l *loop) offerRow(row *task.Task, r keyRow, how keyOffer) {
	l.held.some = true
	l.endWhenExpired(row, r.mustRead)
	copied := *row
	r.rowKey, r.row = keyOf(row), &copied
	l.keys.queue.offer(row.LimitKey, r, how)
}

// keysReady returns about how many rows could start whose keys are ready.
func (l *loop) keysReady() int {
	if l.keys == nil || l.keys.isPaused(l.now()) {
		return 0
	}
	k, q := l.keys, l.keys.queue
	q.wake(l.now().Add(l.Lead / 2))
	freed := k.slots.freedOf(k.waiter)
	for _, key := range freed {
		q.freed(key)
	}
	k.told = append(k.told, freed...)
	if len(q.ready) == 0 {
		return 0
	}
	return min(q.rows, partitionRowsMax)
}

// isPaused reports whether no rows are taken because a read has failed; a clock that was set back does not
// make it longer.
func (k *loopKeys) isPaused(now task.Instant) bool {
	return k.retry > now && k.retry <= now.Add(retryMax)
}

// takeKeyed takes rows whose keys have slots from the lists, keys in turn. Tasks without a limit key have a
// turn as well, as if they were of one key.
func (m *managedMode) takeKeyed(ctx context.Context, now task.Instant, allowed int) (taken []entry) {
	k := m.keys
	if k == nil || len(k.queue.ready) == 0 || k.isPaused(now) {
		return nil
	}
	keys := len(k.queue.ready)
	if others := m.buffer.waiting(now, m.Lead, allowed); others > 0 {
		k.queue.othersDue += float64(allowed) / float64(keys+1)
		turns := min(int(k.queue.othersDue), others, allowed)
		k.queue.othersDue = min(k.queue.othersDue-float64(turns), 1)
		allowed -= turns
	} else {
		k.queue.othersDue = 0
	}
	rows := k.queue.take(now.Add(m.Lead/2), min(allowed, batchRowsMax), func(key string) (bool, task.Instant) {
		ok, again := k.slots.take(key, now, k.waiter)
		if !again.IsZero() {
			again = again.Add(m.Lead / 2) // as a due time: keys are ready that much earlier
		}
		return ok, again
	})
	once := rows[:0]
	for i := range rows {
		if k.taken[rows[i].id] != nil { // it was moved, and both of its rows were listed: one is gone
			k.slots.unstarted(rows[i].key)
			k.slots.free(rows[i].key)
			k.queue.offer(rows[i].key, rows[i].keyRow, keyRead)
			continue
		}
		k.taken[rows[i].id] = &keyStart{key: rows[i].key, mayGo: rows[i].mayGo}
		once = append(once, rows[i])
	}
	return m.entriesOf(ctx, once)
}

// hasPace reports whether a gate that resumes at a pace has let a task go before it waited for its limit key.
func (l *loop) hasPace(g *gates.Gate, id task.ID) bool {
	if l.keys == nil || g.Action != gates.Pause || g.Resumed.IsZero() {
		return false
	}
	one := l.keys.taken[id]
	return one != nil && one.mayGo
}

// entriesOf returns rows of keys as entries. Those that were not kept are read again.
func (m *managedMode) entriesOf(ctx context.Context, rows []keyedRow) (entries []entry) {
	var again []store.WakeKey
	for i := range rows {
		if rows[i].row == nil {
			again = append(again, store.WakeKey{Wake: rows[i].at, ID: rows[i].id})
		}
	}
	var read []task.Task
	if len(again) > 0 {
		var err error
		read, err = m.Store.Wakeups(ctx, again)
		m.stats.progress.mark(m.Clock)
		if err != nil {
			m.partitionFailed(ctx, m.partition, err)
			for i := range rows {
				m.keys.queue.offer(rows[i].key, rows[i].keyRow, keyKnown)
			}
			m.keys.retry = m.now().Add(retryMax / 10)
			return nil
		}
	}
	for i := range rows {
		r := &rows[i]
		if r.row == nil {
			found := read[0]
			if read = read[1:]; found.ID.IsZero() {
				continue // it is gone
			}
			must, _ := m.mustRead(&found)
			r.row, r.mustRead = &found, r.mustRead || must
		}
		entries = append(entries, entry{at: r.due, id: r.id, row: r.row, mustRead: r.mustRead, early: true, sends: true})
	}
	return entries
}

// keyFirst reports whether a task without a task row has a slot of its limit key, or needs none; otherwise it
// waits in the list of its key.
func (m *managedMode) keyFirst(o *task.Order) bool {
	if !m.isKeyLimited(&o.Task) || o.Event.Kind != task.Enqueue || m.keys.taken[o.Task.ID] != nil {
		return true
	}
	m.offerRow(&o.Task, keyRow{due: o.Task.WakeRow.At, mayGo: true}, keyRead)
	return false
}

// keyOrders leaves out the orders for tasks that wait in their rows and have no slot of their limit key:
// these wait in the list of that.
func (m *managedMode) keyOrders(orders []task.Order) []task.Order {
	if m.keys == nil {
		return orders
	}
	kept, now := orders[:0], m.now()
	for i := range orders {
		o := &orders[i]
		switch {
		case !m.isKeyLimited(&o.Task) || m.keys.taken[o.Task.ID] != nil:
		case o.Event.Kind == task.WorkerLost:
			m.keys.slots.started(o.Task.LimitKey, now)
		case isRetry(*o):
			m.inFlight.drop(o.Task.ID)
			m.offerRow(&o.Task, keyRow{due: o.Task.Wake, mustRead: true, mayGo: true}, keyRead)
			continue
		}
		kept = append(kept, *o)
	}
	return kept
}

// keyAgain has a task wait in the list of its key that had a slot, and for which there is no room now.
func (m *managedMode) keyAgain(t *task.Task) bool {
	if !m.isKeyLimited(t) {
		return false
	}
	m.inFlight.drop(t.ID)
	m.offerRow(t, keyRow{due: t.Wake, mustRead: true, mayGo: true}, keyRead)
	return true
}

// noteStart notes that a task was started for which the round had taken a slot.
func (m *managedMode) noteStart(id task.ID) {
	if m.keys == nil {
		return
	}
	if one := m.keys.taken[id]; one != nil {
		one.made = true
	}
}

// endKeyRound gives back the slots that the round has taken: what is in flight counts the tasks that were
// started.
func (l *loop) endKeyRound() {
	if l.keys == nil {
		return
	}
	for _, one := range l.keys.taken {
		if !one.made {
			l.keys.slots.unstarted(one.key)
		}
		l.keys.slots.free(one.key)
	}
	clear(l.keys.taken)
	l.passOn()
}

// passOn has others told of the free slots that this loop was told of and has not used, unless it is about
// to.
func (l *loop) passOn() {
	k, kept := l.keys, l.keys.told[:0]
	for _, key := range k.told {
		state := keyIdle
		if one := k.queue.lists[key]; one != nil {
			state = one.state
		}
		switch {
		case state == keyFilled: // it got none, and waits again
		case state == keyReady && !k.blocked:
			kept = append(kept, key)
		default:
			k.slots.unwait(key, k.waiter)
		}
	}
	k.told = kept
}

// keysWait reports whether a key waits for a slot.
func (l *loop) keysWait() bool { return l.keys != nil && l.keys.queue.filled > 0 }

// nextKey returns when a key becomes ready by itself, or is.
func (l *loop) nextKey(now task.Instant, lacking bool) task.Instant {
	at := now.Add(idleMax)
	if l.keys == nil {
		return at
	}
	if l.keys.isPaused(now) {
		return l.keys.retry
	}
	if len(l.keys.queue.ready) > 0 && !lacking {
		return now
	}
	if next, ok := l.keys.queue.next(); ok {
		at = min(at, next.Add(-l.Lead/2))
	}
	return at
}

// nextPass returns when the next page of a pass is to be read; zero: none is.
func (l *loop) nextPass() task.Instant {
	if l.keys == nil || l.foreign || l.reader.ahead.through.IsZero() || !l.keys.queue.wantsPass() {
		return 0
	}
	if q := l.keys.queue; !q.pass.underWay && len(q.low) == 0 {
		return max(l.keys.page, l.keys.again)
	}
	return max(l.keys.page, 1)
}

// isPassDue reports whether a page of a pass may be read now.
func (l *loop) isPassDue(now task.Instant) bool {
	at := l.nextPass()
	return !at.IsZero() && (at <= now || at > now.Add(2*keyPassEvery)) // the clock may be set back
}

// passPage reads the next page of a pass, which fills the lists of keys that ran low.
func (l *loop) passPage(ctx context.Context) error {
	k, q, now := l.keys, l.keys.queue, l.now()
	if !q.pass.underWay && len(q.low) == 0 {
		k.again = now.Add(keyPassEvery)
	}
	q.beginPass()
	limit := l.pageRows()
	page, err := l.Store.ScanSchedule(ctx, l.partition, store.WakeKey{Wake: q.pass.after.at, ID: q.pass.after.id}, l.reader.ahead.through, limit)
	if err != nil {
		return err
	}
	after, ended := q.pass.after, len(page) < limit
	k.page = now
	if l.Queue.Durable() {
		k.page = now.Add(scanPause * time.Duration(limit) / scanPageMax)
	}
	for i := range page {
		if !l.passRow(&page[i]) {
			k.page, ended = now.Add(keyPassWait), false
			break
		}
		after = keyOf(&page[i])
	}
	if ended {
		after = endOf(l.reader.ahead.through)
	}
	q.passed(after, ended, keyPassPagesMax)
	return nil
}

// passRow takes a row of a pass in; false if there is no room for it.
func (l *loop) passRow(row *task.Task) bool {
	if l.knows(row) {
		return true
	}
	switch mustRead, _ := l.mustRead(row); {
	case l.gateOf(row, l.now()) != nil || !row.IsBare() && !l.isKeyLimited(row): // other scans bring it
	case !row.IsBare():
		l.offerRow(row, keyRow{due: row.WakeRow.At, mustRead: mustRead}, keyScanned)
	case l.buffer.entries.Has(entry{at: row.WakeRow.At, id: row.ID}) || row.WakeRow.At > l.now():
	case l.buffer.entries.Len() > l.buffer.limit/2:
		return false
	default:
		l.add(row)
	}
	return true
}

// publishKeys lets others see how many rows wait for their limit key.
func (l *loop) publishKeys() {
	now := l.now()
	if l.keys == nil || now < l.keys.counted && l.keys.counted <= now.Add(keyCountEvery) {
		return
	}
	l.keys.counted = now.Add(keyCountEvery)
	var waiting int
	waiting, l.keys.heldReady = l.keys.queue.held(now)
	l.stats.heldByKey.Store(int64(waiting))
}

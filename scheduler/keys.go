package scheduler

import (
	"time"

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
	keyCountEvery = time.Second
)

// loopKeys is what a loop has of the limits by key of its lambda.
type loopKeys struct {
	slots   *keySlots
	waiter  *keyWaiter
	queue   *keyQueue
	limits  keyLimits
	taken   map[task.ID]*keyStart // slots that the round has taken
	told    []string              // keys of which this loop was told that a slot is free
	retry   tick                  // when rows are taken again after a read has failed
	blocked bool                  // the last round lacked room or a quota for keys that were ready
	page    tick                  // when the next page of a pass may be read
	again   tick                  // when a pass may look again for keys without a list
	counted tick                  // when stats.heldByKey is counted again

	dueReady int // rows whose keys were ready then, and that waited for something else
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
	if !l.isKeyLimited(row) || l.gateOf(row) != nil {
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
	if l.keys == nil || l.tick() < l.keys.retry {
		return 0
	}
	k, q := l.keys, l.keys.queue
	now := l.now()
	q.wake(now.Add(l.Lead/2), now.Add(l.Lead))
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

// nextKey returns when a key becomes ready by itself, or is, or when the rows are counted again that wait.
func (l *loop) nextKey(now task.Instant, lacking bool) task.Instant {
	at := never
	if l.keys == nil {
		return at
	}
	if l.tick() < l.keys.retry {
		return l.wall.local(l.keys.retry)
	}
	if len(l.keys.queue.ready) > 0 && !lacking {
		return now
	}
	if next, ok := l.keys.queue.next(); ok {
		at = min(at, next.Add(-l.Lead/2))
	}
	if l.keys.queue.rows > 0 {
		at = min(at, l.wall.local(l.keys.counted))
	}
	return at
}

// publishKeys lets others see how many rows wait for their limit key.
func (l *loop) publishKeys() {
	now := l.tick()
	if l.keys == nil || now < l.keys.counted {
		return
	}
	l.keys.counted = now.Add(keyCountEvery)
	var waiting int
	waiting, l.keys.dueReady = l.keys.queue.due(l.wall.local(now))
	l.stats.heldByKey.Store(int64(waiting))
}

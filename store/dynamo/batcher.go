package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// batcher gathers the writes of all calls into batches, sends a bounded number of those at once, and hands
// out the results. Methods that do not say otherwise are called with mu held.
type batcher struct {
	*client

	shapes shapes
	idle   chan []*write // to a sender that waits for a batch

	mu       sync.Mutex // guards all below, and what is said elsewhere to be guarded by it
	queue    queue
	inFlight int          // requests
	timer    task.Instant // when a timer pumps; zero when none is set
	held     map[groupKey]*heldGroup
	meter    loadMeter
	deferred deferred
}

func newBatcher(c *client) *batcher {
	return &batcher{client: c, shapes: newShapes(&c.tables), idle: make(chan []*write), held: map[groupKey]*heldGroup{}}
}

// apply writes ops, and returns a result for each. It is called without mu.
func (b *batcher) apply(ctx context.Context, ops []store.Op) ([]error, error) {
	c := &call{results: make([]error, len(ops)), left: 1, done: make(chan struct{})}
	first := b.plan(ctx, c, ops)
	b.mu.Lock()
	for _, w := range first {
		b.start(w)
	}
	c.finishOne()
	b.pump()
	b.mu.Unlock()
	select {
	case <-c.done:
		return c.results, nil
	case <-ctx.Done():
		b.mu.Lock()
		defer b.mu.Unlock()
		c.gone = true
		return nil, context.Cause(ctx)
	}
}

// plan encodes the ops of a call and returns the writes that can start at once. Ops on one key are applied in
// order, and an op that follows another after that. It is called without mu.
func (b *batcher) plan(ctx context.Context, c *call, ops []store.Op) (first []*write) {
	all := make([]write, len(ops))
	first = make([]*write, 0, len(ops))
	payloadErrs := b.extendPayloads(ctx, ops)
	var last map[uint64]*write
	if len(ops) > 1 {
		last = make(map[uint64]*write, len(ops))
	}
	now := b.cfg.Clock.Now()
	for i := range ops {
		w := &all[i]
		w.call, w.at = c, i
		err := w.encode(&ops[i], &b.shapes, now)
		if err == nil && payloadErrs != nil {
			err = payloadErrs[i]
		}
		if err == nil && ops[i].Follows && (i == 0 || c.results[i-1] != nil) {
			err = store.ErrSkipped
		}
		if err != nil {
			c.results[i] = err
			continue
		}
		c.left++
		w.alone = w.alone || b.cfg.Single
		if ops[i].Follows {
			all[i-1].follower = w
			w.blockers++
		}
		if before := last[w.hash]; before != nil {
			before.next = append(before.next, w)
			w.blockers++
		}
		if w.blockers == 0 {
			first = append(first, w)
		}
		if last != nil {
			last[w.hash] = w
		}
	}
	return first
}

// start starts a write that waits for no other of its call. One that meets a pending deletion of its row
// comes after that, as its caller expects.
func (b *batcher) start(w *write) {
	before := b.deferred.before(w)
	switch {
	case w.skip != nil:
		b.settle(w, w.skip)
	case before != nil && w.deferred && w.wakeRow == before.wakeRow: // it is being deleted
		b.settle(w, nil)
	case before != nil:
		before.next = append(before.next, w)
	case w.deferred:
		b.answer(w, nil)
		w.call = nil
		if !b.deferred.add(w) {
			b.settle(w, errDeferredMax)
			return
		}
		b.enqueue(w)
	default:
		b.enqueue(w)
	}
}

// enqueue makes a write ready to be sent, or holds it with its throttled group.
func (b *batcher) enqueue(w *write) {
	now := clock.Steady(b.cfg.Clock)
	if g := b.held[w.group]; g != nil && w.round == nil {
		w.held = now
		g.hold(w)
		return
	}
	b.queue.add(w, now)
}

var errGone = errors.New("the caller gave up") // nobody reads it

// pump starts the requests that may start.
func (b *batcher) pump() {
	for b.inFlight < b.cfg.RequestsMax {
		now := clock.Steady(b.cfg.Clock)
		batch, gone, at := b.queue.take(now, b.inFlight, b.cfg.RequestsMax)
		for _, w := range gone {
			b.settle(w, errGone)
		}
		switch {
		case len(batch) > 0:
			b.inFlight++
			select {
			case b.idle <- batch:
			default:
				b.running.Go(func() { b.sendAll(batch) })
			}
		case len(gone) == 0:
			if at > 0 {
				b.pumpAt(now, at)
			}
			return
		}
	}
}

// pumpAt calls pump at an instant, unless a timer does so before.
func (b *batcher) pumpAt(now, at task.Instant) {
	if b.timer != 0 && b.timer <= at {
		return
	}
	b.timer = at
	b.after(at.Sub(now), func() {
		if b.timer == at {
			b.timer = 0
		}
	})
}

// after calls do and pump after a pause.
func (b *batcher) after(pause time.Duration, do func()) {
	b.running.Go(func() {
		_ = clock.Sleep(b.base, b.cfg.Clock, pause)
		b.mu.Lock()
		defer b.mu.Unlock()
		do()
		b.pump()
	})
}

// sendAll sends one batch after the other, without mu. It goes on until the driver is closed, because the AWS
// client's calls go deep, and growing the stack of a new goroutine for each was a twelfth of their CPU time.
func (b *batcher) sendAll(batch []*write) {
	for {
		b.sendBatch(batch)
		select {
		case batch = <-b.idle:
		case <-b.base.Done():
			return
		}
	}
}

// sendBatch sends one request and handles its answers. It is called without mu.
func (b *batcher) sendBatch(batch []*write) {
	answers, failure := b.send(batch)
	var payloads []*write // that are there already
	b.mu.Lock()
	b.inFlight--
	for i, w := range batch {
		a := &answers[i]
		if w.shape.table == b.tables.schedule {
			b.meter.add(w, a.result)
		}
		switch {
		case isInvalid(failure): // because of one of them, nobody knows which
			w.alone = true
			b.enqueue(w)
		case a.result == throttled:
			b.hold(w)
		case w.mayDeleteAgain(a):
			w.attempts++
			b.leaveRound(w, false)
			b.enqueue(w)
		case len(batch) > 1 && w.needsPut(a):
			w.alone = true
			b.enqueue(w)
		case a.result == conflicted && w.kind == store.PutPayload:
			payloads = append(payloads, w)
		default:
			b.settle(w, b.resultOf(w, a))
		}
	}
	b.pump()
	b.mu.Unlock()
	for _, w := range payloads {
		result := b.keepPayload(w)
		b.mu.Lock()
		b.settle(w, result)
		b.pump()
		b.mu.Unlock()
	}
}

// hold holds a throttled write with its group, or gives it up.
func (b *batcher) hold(w *write) {
	b.noteThrottled(*w.shape.table)
	w.attempts++
	now := clock.Steady(b.cfg.Clock)
	if w.held == 0 {
		w.held = now
	}
	if now.Sub(w.held) > throttleMax || b.deferred.isClosed {
		b.giveUp(w, now)
		return
	}
	g := b.held[w.group]
	if g == nil {
		g = &heldGroup{failures: 1, progress: clock.Steady(b.cfg.Clock)}
		b.held[w.group] = g
		b.pauseGroup(w.group, g)
	}
	g.hold(w)
	b.leaveRound(w, true)
}

func (b *batcher) giveUp(w *write, now task.Instant) {
	b.settle(w, fmt.Errorf("%w: table %s: a write of partition %s waited %v for capacity and was sent %d times",
		store.ErrThrottled, *w.shape.table, w.group.partition, now.Sub(w.held), w.attempts))
}

// leaveRound notes the answer of a write that was sent in a round of its group.
func (b *batcher) leaveRound(w *write, isThrottled bool) {
	g := w.round
	if g == nil {
		return
	}
	w.round = nil
	if g.open--; isThrottled {
		g.throttled++
	} else {
		g.progress = clock.Steady(b.cfg.Clock)
	}
	switch {
	case g.open > 0:
	case g.endRound():
		b.pauseGroup(w.group, g)
	default:
		b.startRound(w.group, g)
	}
}

// pauseGroup starts the next round of a group after a pause.
func (b *batcher) pauseGroup(key groupKey, g *heldGroup) {
	b.after(throttlePauses.Pause(b.cfg.Clock, g.failures), func() { b.startRound(key, g) })
}

// startRound sends the next writes of a group, or forgets the group when it holds none. It gives up those
// that were held for too long.
func (b *batcher) startRound(key groupKey, g *heldGroup) {
	now := clock.Steady(b.cfg.Clock)
	for w := g.takeExpired(now); w != nil; w = g.takeExpired(now) {
		b.giveUp(w, now)
	}
	round := g.takeRound()
	if len(round) == 0 {
		delete(b.held, key)
	}
	for _, w := range round {
		b.enqueue(w)
	}
}

// settle notes the result of a write and starts those of its key that wait for it.
func (b *batcher) settle(w *write, result error) {
	b.leaveRound(w, errors.Is(result, store.ErrThrottled))
	if w.call == nil {
		b.deferred.finish(b.client, w, result)
	} else {
		b.answer(w, result)
	}
	for _, next := range w.next {
		b.unblock(next)
	}
}

// answer gives the caller of a write its result, and starts or skips the op that follows it.
func (b *batcher) answer(w *write, result error) {
	c := w.call
	c.results[w.at] = result
	if f := w.follower; f != nil {
		op := store.Op{Kind: w.kind}
		switch {
		case op.Holds(result):
		case errors.Is(result, store.ErrUnknown):
			f.skip = fmt.Errorf("%w: what it follows: %w", store.ErrUnknown, result)
		default:
			f.skip = store.ErrSkipped
		}
		b.unblock(f)
	}
	c.finishOne()
}

// unblock starts a write when it waits for no other.
func (b *batcher) unblock(w *write) {
	if w.blockers--; w.blockers <= 0 {
		b.start(w)
	}
}

// deletedRows returns the rows whose deletion is pending. It is called without mu, and before a read, since a
// deletion may be done before the answer comes.
func (b *batcher) deletedRows() deletedRows {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.deferred.rows()
}

// keyLoads implements store.Capabilities.KeyLoads. It is called without mu.
func (b *batcher) keyLoads() map[task.Partition]store.KeyLoad {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.meter.take()
}

// drain sends the deferred deletions that are not throttled and waits for them. It is called without mu.
func (b *batcher) drain() {
	b.mu.Lock()
	b.deferred.isClosed, b.queue.flush = true, true
	for _, g := range b.held {
		writes := g.writes
		g.writes = nil
		for _, w := range writes {
			b.settle(w, errClosing)
		}
	}
	b.pump()
	if len(b.deferred.pending) == 0 {
		b.mu.Unlock()
		return
	}
	done := make(chan struct{})
	b.deferred.done = done
	b.mu.Unlock()
	ctx, cancel := clock.Within(context.Background(), b.cfg.Clock, closeTimeMax)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// roundRowsMax bounds a round of a throttled group.
const roundRowsMax = 40 * batchRowsMax

// hold puts a write in line. One that was throttled in a round goes to the front.
func (g *heldGroup) hold(w *write) {
	if w.round == g {
		g.writes = slices.Insert(g.writes, 0, w)
	} else {
		g.writes = append(g.writes, w)
	}
}

// takeExpired removes a write that was held for longer than it may; nil when there is none. One that was not
// sent yet waits for its turn as long as others of the group come through.
func (g *heldGroup) takeExpired(now task.Instant) *write {
	if len(g.writes) == 0 || now.Sub(g.writes[0].held) <= throttleMax {
		return nil
	}
	if g.writes[0].attempts == 0 && now.Sub(g.progress) <= throttleMax {
		return nil
	}
	w := g.writes[0]
	g.writes = withoutFirst(g.writes, 1)
	return w
}

// takeRound removes the writes of the next round.
func (g *heldGroup) takeRound() []*write {
	g.rows = min(max(g.size, batchRowsMax), len(g.writes))
	g.open, g.throttled = g.rows, 0
	round := slices.Clone(g.writes[:g.rows])
	g.writes = withoutFirst(g.writes, g.rows)
	for _, w := range round {
		w.round, w.linger = g, 0
	}
	return round
}

// endRound reports whether there is a pause before the next round.
func (g *heldGroup) endRound() (pauses bool) {
	if g.failures++; 2*g.throttled <= g.rows {
		g.failures = 0
	}
	if g.size = batchRowsMax; g.throttled == 0 {
		g.size = min(2*g.rows, roundRowsMax)
	}
	return g.throttled > 0
}

const (
	// meteredPartitionsMax bounds the partitions that are counted, also when take is never called.
	meteredPartitionsMax = 1 << 14
	// unitBytes is how much of a row DynamoDB writes for a unit.
	unitBytes = 1 << 10
)

// loadMeter counts what the writes to each partition of the schedule consume. batcher.mu guards it.
type loadMeter struct {
	loads map[task.Partition]store.KeyLoad
}

// add counts a write to the schedule. One whose condition does not hold consumes as much as another. A
// deleted row counts as small, since its size is not known here.
func (m *loadMeter) add(w *write, r result) {
	if r == refused || r == unsent {
		return
	}
	load, known := m.loads[w.group.partition]
	switch {
	case !known && len(m.loads) == meteredPartitionsMax:
		return
	case m.loads == nil:
		m.loads = map[task.Partition]store.KeyLoad{}
	}
	if r == throttled {
		load.Throttled = true
	} else {
		load.Units += 1 + w.bytes/unitBytes
	}
	m.loads[w.group.partition] = load
}

// take returns the counts and starts again from zero.
func (m *loadMeter) take() map[task.Partition]store.KeyLoad {
	loads := m.loads
	m.loads = nil
	return loads
}

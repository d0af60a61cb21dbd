package sqs

import (
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Bounds of what is on its way at once, for one queue. What comes meanwhile waits and goes together,
// in fewer and fuller messages: that is how packing follows the load.
const (
	sendsInFlightMax   = 8
	deletesInFlightMax = 4
)

// batcher gathers what concurrent callers want to send to one queue. An item that comes alone goes at once.
// One that comes while the queue is busy (another came within the linger before it) waits so long for others.
type batcher[T any] struct {
	driver   *Driver
	run      func(items []T) // sends them, and tells whoever waits; it may take its time
	full     int             // so many items go at once
	inFlight int             // the most runs at the same time

	mu      sync.Mutex // guards all below
	pending []T
	runs    int
	due     bool         // what is pending goes as soon as a run is allowed
	flushAt task.Instant // when what is pending becomes due
	last    task.Instant // when the latest item came
}

func newBatcher[T any](d *Driver, run func([]T), full, inFlight int) *batcher[T] {
	return &batcher[T]{driver: d, run: run, full: full, inFlight: inFlight}
}

// add hands items over. They wait at most for linger before they are sent, and not at all when none came
// within linger before them; with patient they wait for it in any case.
func (b *batcher[T]) add(items []T, linger time.Duration, patient bool) {
	if len(items) == 0 {
		return
	}
	now := clock.Steady(b.driver.Clock)
	b.mu.Lock()
	defer b.mu.Unlock()
	busy := patient || (b.last > 0 && now.Sub(b.last) <= linger) || b.flushAt > 0
	b.last = now
	b.pending = append(b.pending, items...)
	if linger <= 0 || !busy || b.driver.closed.Load() {
		b.due = true
	}
	b.launch()
	if at := now.Add(linger); len(b.pending) > 0 && !b.due && (b.flushAt == 0 || at < b.flushAt) {
		b.flushAt = at
		b.driver.work.start(func() {
			_ = clock.Sleep(b.driver.open, b.driver.Clock, linger)
			b.flush(at)
		})
	}
}

// flush sends what is pending and due at that time.
func (b *batcher[T]) flush(at task.Instant) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.flushAt <= at || b.driver.closed.Load() {
		b.due = len(b.pending) > 0
		b.launch()
	}
}

// launch starts what may go: full portions, and the rest once it is due. What must wait for a run to end goes
// with whatever comes until then. The caller holds the lock.
func (b *batcher[T]) launch() {
	for b.runs < b.inFlight && (len(b.pending) >= b.full || b.due && len(b.pending) > 0) {
		items := b.pending[:min(len(b.pending), b.full)]
		started := b.driver.work.start(func() {
			b.run(items)
			b.mu.Lock()
			defer b.mu.Unlock()
			b.runs--
			b.launch()
		})
		if !started {
			return
		}
		b.runs++
		b.pending = b.pending[len(items):len(b.pending):len(b.pending)]
	}
	if len(b.pending) == 0 {
		b.pending, b.due, b.flushAt = nil, false, 0
	}
}

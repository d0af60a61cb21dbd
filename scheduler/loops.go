package scheduler

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/limit"
	"github.com/kinesin-io/kinesin/task"
)

// newLoop returns the loop of a partition, which has not started. rows bounds its buffer.
func newLoop(s *shared, p task.Partition, start tick, rows int) *loop {
	wake := make(chan struct{}, 1)
	l := &loop{
		shared: s, partition: p, turns: s.turnsOf(p.Lambda), delivers: s.Delivery != nil && s.Delivery.Is(p), wake: wake,
		buffer: newBuffer(rows), inFlight: newInFlightSet(s.inFlightLimit), wall: newLoopClock(s.Clock, start),
		reader: scheduleReader{ahead: readAhead{breaker: backoff.Breaker{Policy: retries}}, request: readRequest{wake: wake}, full: newFullScan(s.Clock.Uint64()), dueSoon: dueSoonCount{every: s.countsEvery()}},
	}
	l.inFlight.slots.waiter = limit.SlotWaiter{Class: p.Priority, Wake: func() { notify(wake) }}
	l.mode = &managedMode{loop: l, breaker: backoff.Breaker{Policy: retries}}
	if l.delivers {
		l.mode = newDeliverMode(l)
	}
	return l
}

func (g *loopGroup) run(l *loop) {
	var ctx context.Context
	ctx, l.stop = context.WithCancel(g.ctx)
	g.Go(func() { l.run(ctx) })
}

// startForeign starts the loop of a foreign partition.
func (s *Scheduler) startForeign(g *loopGroup, p task.Partition) *loop {
	l := newLoop(s.shared, p, g.start, partitionRowsMin)
	l.foreign = true
	g.run(l)
	return l
}

// countsEvery returns how often a partition is counted.
func (s *shared) countsEvery() time.Duration {
	if s.Foreign {
		return countEvery
	}
	return 0
}

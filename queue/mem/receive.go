package mem

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// Receive implements queue.Driver.
func (d *Driver) Receive(ctx context.Context, names []queue.Name, limit int, ahead time.Duration) ([]queue.Message, error) {
	d.mu.Lock()
	if err := d.usable(ctx); err != nil {
		d.mu.Unlock()
		return nil, err
	}
	now := d.clock.Now()
	if got := d.take(names, limit, ahead, now); len(got) > 0 {
		d.mu.Unlock()
		return got, nil
	}
	w := d.addWaiter(names, ahead, now)
	d.mu.Unlock()
	for {
		select {
		case <-w.wake:
		case <-w.timer.C():
		case <-ctx.Done():
		}
		if got, err := d.retry(ctx, w, names, limit); len(got) > 0 || err != nil {
			return got, err
		}
	}
}

// take returns up to limit messages, once a lane has one that is due within half of ahead.
func (d *Driver) take(names []queue.Name, limit int, ahead time.Duration, now task.Instant) []queue.Message {
	soon := now.Add(ahead / 2)
	if !slices.ContainsFunc(names, func(name queue.Name) bool { return d.lanes[name].isDue(soon) }) {
		return nil
	}
	through := now.Add(ahead)
	var picked []*message
	for _, name := range names {
		l := d.lanes[name]
		if len(picked) == limit || !l.isDue(through) {
			continue
		}
		turn := d.turns.For(name, names)
		for len(picked) < limit && l.isDue(through) {
			from := l
			if turn != nil { // what this lane would give is given by the lane of the lambda whose turn it is
				from = d.lanes[turn.Next(func(name queue.Name) bool { return d.lanes[name].isDue(through) })]
			}
			picked = append(picked, d.deliver(from))
		}
	}
	got := make([]queue.Message, len(picked))
	for i, m := range picked {
		got[i] = m.Message
	}
	return got
}

// deliver hands out the first message of a lane.
func (d *Driver) deliver(l *lane) *message {
	m := l.waiting.pop().message
	l.inFlight++
	if len(l.waiting)*2 < d.depthMax {
		l.signalRoom()
	}
	d.deliveries++
	m.Receipt = strconv.FormatUint(d.deliveries, 36)
	d.received[m.Receipt] = m
	return m
}

// addWaiter makes a waiter wait for names without due messages.
func (d *Driver) addWaiter(names []queue.Name, ahead time.Duration, now task.Instant) *waiter {
	w := &waiter{ahead: ahead, lanes: make([]*lane, len(names)), wake: make(chan struct{}, 1), timer: d.clock.NewTimer(recheckMax)}
	w.timer.Stop()
	for i, name := range names {
		w.lanes[i] = d.lane(name)
		w.lanes[i].join(w)
		d.notify(w.lanes[i], now)
	}
	return w
}

// retry lets a woken waiter take messages. It goes on waiting when there are none and no error.
func (d *Driver) retry(ctx context.Context, w *waiter, names []queue.Name, limit int) ([]queue.Message, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.clearWakes()
	now := d.clock.Now()
	err := d.usable(ctx)
	var got []queue.Message
	if err == nil {
		got = d.take(names, limit, w.ahead, now)
	}
	if err != nil || len(got) > 0 {
		d.removeWaiter(w, now)
		return got, err
	}
	for _, l := range w.lanes {
		d.notify(l, now)
	}
	return nil, nil
}

// removeWaiter removes w from its lanes and notifies the next waiter of each.
func (d *Driver) removeWaiter(w *waiter, now task.Instant) {
	for _, l := range w.lanes {
		l.leave(w)
	}
	for _, l := range w.lanes {
		d.notify(l, now)
		d.dropIdle(l)
	}
}

package mem

import (
	"context"
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
	if !d.anyDue(names, now.Add(ahead/2)) {
		return nil
	}
	through := now.Add(ahead)
	d.picked = d.picked[:0]
	for _, name := range names {
		l := d.lanes[name]
		if l == nil {
			continue
		}
		if len(d.picked) < limit && l.isDue(through) {
			if turn := d.turns.For(name, names); turn != nil {
				d.pickInTurn(turn, l, limit, through)
			}
		}
		d.pick(l, limit, through)
	}
	return d.deliver(d.picked)
}

// pickInTurn picks as many messages as pick would, but each from the lane of the lambda whose turn it is.
func (d *Driver) pickInTurn(turn *queue.Turn, l *lane, limit int, through task.Instant) {
	isDue := func(name queue.Name) bool { return d.lanes[name].isDue(through) }
	for len(d.picked) < limit && l.isDue(through) {
		d.pick(d.lanes[turn.Next(isDue)], len(d.picked)+1, through)
	}
}

// pick appends the slots of a lane's due messages to d.picked, up to limit in all.
func (d *Driver) pick(l *lane, limit int, through task.Instant) {
	for len(d.picked) < limit && l.isDue(through) {
		d.picked = append(d.picked, l.waiting.pop().slot)
		l.inFlight++
	}
	if l.room != nil && len(l.waiting)*2 < d.depthMax {
		l.signalRoom()
	}
}

func (d *Driver) anyDue(names []queue.Name, through task.Instant) bool {
	for _, name := range names {
		if d.lanes[name].isDue(through) {
			return true
		}
	}
	return false
}

// deliver returns copies of messages with a receipt each. All receipts share one allocation.
func (d *Driver) deliver(slots []uint32) []queue.Message {
	messages := make([]queue.Message, len(slots))
	receipts := make([]byte, 0, len(slots)*receiptBytes)
	for n, i := range slots {
		s := d.slots.at(i)
		d.deliveries++
		s.delivery = d.deliveries
		messages[n].Task, messages[n].Again = s.message.Task, s.message.Again
		receipts = appendReceipt(receipts, i, s.delivery)
	}
	text := string(receipts)
	for n := range slots {
		messages[n].Receipt = text[n*receiptBytes:][:receiptBytes]
	}
	return messages
}

// addWaiter makes a waiter wait for names without due messages.
func (d *Driver) addWaiter(names []queue.Name, ahead time.Duration, now task.Instant) *waiter {
	w := d.newWaiter(len(names))
	w.ahead = ahead
	for i, name := range names {
		s := &w.places[i]
		*s = place{waiter: w, lane: d.lane(name)}
		s.lane.join(s)
		d.notify(s.lane, now)
	}
	return w
}

func (d *Driver) newWaiter(places int) *waiter {
	var w *waiter
	if last := len(d.waitersSpare) - 1; last >= 0 {
		w, d.waitersSpare = d.waitersSpare[last], d.waitersSpare[:last]
	} else {
		w = &waiter{wake: make(chan struct{}, 1), timer: d.clock.NewTimer(recheckMax)}
		w.timer.Stop()
	}
	if cap(w.places) < places {
		w.places = make([]place, places)
	}
	w.places = w.places[:places]
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
	for i := range w.places {
		d.notify(w.places[i].lane, now)
	}
	return nil, nil
}

// removeWaiter removes w from its lanes and notifies the next waiter of each.
func (d *Driver) removeWaiter(w *waiter, now task.Instant) {
	for i := range w.places {
		w.places[i].lane.leave(&w.places[i])
	}
	for i := range w.places {
		d.notify(w.places[i].lane, now)
		d.dropIdle(w.places[i].lane)
	}
	clear(w.places)
	if len(d.waitersSpare) < waitersSpareMax {
		d.waitersSpare = append(d.waitersSpare, w)
	}
}

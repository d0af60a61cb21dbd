package mem

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// waiter is a Receive that waits. It stands in the line of each of its names.
//
// Nothing is handed to a waiter: it is woken, and then takes what is there. While
// one is woken and not yet back it stays first in its lines, so that more messages
// wake nobody else; when it comes back it looks after all its lines, whether it took
// something, found nothing or was cancelled. Hence no message is forgotten.
type waiter struct {
	ahead  time.Duration
	stands []stand // one for each name
	wake   chan struct{}
	woken  bool // wake is full, or was just emptied by its owner
	timer  clock.Timer
	armed  task.Instant // what the timer is for, 0 for nothing
}

// Receive implements queue.Driver.
func (d *Driver) Receive(ctx context.Context, names []queue.Name, limit int, ahead time.Duration) ([]queue.Message, error) {
	d.mu.Lock()
	if err := d.refusal(ctx); err != nil {
		d.mu.Unlock()
		return nil, err
	}
	now := d.clock.Now()
	if got := d.take(names, limit, ahead, now); len(got) > 0 {
		d.mu.Unlock()
		return got, nil
	}
	w := d.lineUp(names, ahead, now)
	d.mu.Unlock()
	for {
		select {
		case <-w.wake:
		case <-w.timer.C():
		case <-ctx.Done():
		}
		if got, err := d.look(ctx, w, names, limit); len(got) > 0 || err != nil {
			return got, err
		}
	}
}

// take picks up to limit messages when one of the lines has a ripe one.
func (d *Driver) take(names []queue.Name, limit int, ahead time.Duration, now task.Instant) []queue.Message {
	if !d.anyRipe(names, now.Add(ahead/2)) {
		return nil
	}
	through := now.Add(ahead)
	d.picked = d.picked[:0]
	for _, name := range names {
		if l := d.lines[name]; l != nil {
			d.pick(l, limit, through)
		}
	}
	return d.deliver(d.picked)
}

// pick adds the slots of a line's due messages to d.picked, up to limit there.
func (d *Driver) pick(l *line, limit int, through task.Instant) {
	for len(d.picked) < limit && len(l.waiting) > 0 && l.waiting[0].at <= through {
		d.picked = append(d.picked, l.waiting.pop().slot)
		l.inFlight++
	}
	if l.room != nil && len(l.waiting)*2 < d.depthMax {
		l.openRoom()
	}
}

func (d *Driver) anyRipe(names []queue.Name, through task.Instant) bool {
	for _, name := range names {
		if l := d.lines[name]; l != nil && len(l.waiting) > 0 && l.waiting[0].at <= through {
			return true
		}
	}
	return false
}

// deliver copies messages out with a receipt each. All receipts share one allocation.
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

// lineUp makes a waiter for the names, none of which has a ripe message.
func (d *Driver) lineUp(names []queue.Name, ahead time.Duration, now task.Instant) *waiter {
	w := d.newWaiter(len(names))
	w.ahead = ahead
	for i, name := range names {
		s := &w.stands[i]
		*s = stand{waiter: w, line: d.line(name)}
		s.line.join(s)
		d.tend(s.line, now)
	}
	return w
}

func (d *Driver) newWaiter(stands int) *waiter {
	var w *waiter
	if last := len(d.waitersSpare) - 1; last >= 0 {
		w, d.waitersSpare = d.waitersSpare[last], d.waitersSpare[:last]
	} else {
		w = &waiter{wake: make(chan struct{}, 1), timer: d.clock.NewTimer(recheckMax)}
		w.timer.Stop()
	}
	if cap(w.stands) < stands {
		w.stands = make([]stand, stands)
	}
	w.stands = w.stands[:stands]
	return w
}

// look is what a waiter does when something woke it. Without messages and error it goes on waiting.
func (d *Driver) look(ctx context.Context, w *waiter, names []queue.Name, limit int) ([]queue.Message, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	w.calm()
	now := d.clock.Now()
	err := d.refusal(ctx)
	var got []queue.Message
	if err == nil {
		got = d.take(names, limit, w.ahead, now)
	}
	if over := err != nil || len(got) > 0; over {
		d.retire(w, now)
		return got, err
	}
	for i := range w.stands {
		d.tend(w.stands[i].line, now)
	}
	return nil, nil
}

// retire takes w out of its lines and passes each of them on to the next waiter there.
func (d *Driver) retire(w *waiter, now task.Instant) {
	for i := range w.stands {
		w.stands[i].line.leave(&w.stands[i])
	}
	for i := range w.stands {
		d.tend(w.stands[i].line, now)
		d.forgetIdle(w.stands[i].line)
	}
	clear(w.stands)
	if len(d.waitersSpare) < waitersSpareMax {
		d.waitersSpare = append(d.waitersSpare, w)
	}
}

// tend sees to it that the first waiter of a line knows of the earliest message:
// it is woken if the message is ripe for it, and else has its timer set for that.
func (d *Driver) tend(l *line, now task.Instant) {
	if l.first == nil || len(l.waiting) == 0 {
		return
	}
	w := l.first.waiter
	ripe := l.waiting[0].at.Add(-(w.ahead / 2))
	if ripe <= now {
		w.rouse()
		return
	}
	if w.armed == 0 || ripe < w.armed {
		w.armed = ripe
		w.timer.Reset(min(ripe.Sub(now), recheckMax))
	}
}

func (w *waiter) rouse() {
	if !w.woken {
		w.woken = true
		w.wake <- struct{}{} // has room: calm emptied it
	}
}

// calm forgets all wake-ups, so that tend starts anew.
func (w *waiter) calm() {
	w.woken = false
	select {
	case <-w.wake:
	default:
	}
	if w.armed != 0 {
		w.armed = 0
		w.timer.Stop()
	}
}

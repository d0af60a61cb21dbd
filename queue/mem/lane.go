package mem

import (
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// message is a message, waiting or received.
type message struct {
	queue.Message

	lane *lane
}

// lane is one queue. It exists while it holds a message or a receiver waits for one.
type lane struct {
	name     queue.Name
	waiting  entries
	inFlight int
	room     chan struct{} // not nil since a send was refused; closed below half the bound

	// The waiting receivers: those that look further ahead first, then in order of arrival. Only the first
	// one is woken and has a timer: a message that it need not take yet, no other one need take.
	waiters []*waiter
}

// isDue reports whether the lane, if there is one, has a message that is due at or before then.
func (l *lane) isDue(then task.Instant) bool {
	return l != nil && len(l.waiting) > 0 && l.waiting[0].at <= then
}

func (l *lane) isIdle() bool {
	return len(l.waiting) == 0 && l.inFlight == 0 && len(l.waiters) == 0 && l.room == nil
}

var closedRoom = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (l *lane) roomChannel() chan struct{} {
	if l.room == nil {
		l.room = make(chan struct{})
	}
	return l.room
}

func (l *lane) signalRoom() {
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

// join adds w behind all receivers that look at least as far ahead.
func (l *lane) join(w *waiter) {
	at := slices.IndexFunc(l.waiters, func(other *waiter) bool { return other.ahead < w.ahead })
	if at < 0 {
		at = len(l.waiters)
	}
	l.waiters = slices.Insert(l.waiters, at, w)
}

func (l *lane) leave(w *waiter) {
	l.waiters = slices.DeleteFunc(l.waiters, func(other *waiter) bool { return other == w })
}

// waiter is a waiting Receive call. It waits in the lane of each of its names.
//
// A waiter is woken and then takes messages itself. Until it has run it stays first in its lanes, so that
// more messages wake no other waiter. Then it notifies the next waiter of each of its lanes, whether it
// took messages, found none or was cancelled. So no message is forgotten.
type waiter struct {
	ahead time.Duration
	lanes []*lane
	wake  chan struct{}
	woken bool // wake is full, or was just emptied by the waiter
	timer clock.Timer
	armed task.Instant // when the timer fires; 0 when it is not set
}

func (w *waiter) wakeUp() {
	if !w.woken {
		w.woken = true
		w.wake <- struct{}{} // has room: clearWakes emptied it
	}
}

// clearWakes clears all wake-ups and the timer, so that notify starts anew.
func (w *waiter) clearWakes() {
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

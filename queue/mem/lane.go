package mem

import (
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// lane is one queue. It exists while it holds a message or a receiver waits for one.
type lane struct {
	name     queue.Name
	waiting  entries
	inFlight int
	room     chan struct{} // not nil since a send was refused; closed below half the bound

	// The waiting receivers: those that look further ahead first, then in order of arrival. Only the first
	// one is woken and has a timer: a message that it need not take yet, no other one need take.
	first, last *place
}

// place is an element of the list of receivers in a lane.
type place struct {
	waiter     *waiter
	lane       *lane
	prev, next *place
}

// isDue reports whether the lane, if there is one, has a message that is due at or before then.
func (l *lane) isDue(then task.Instant) bool {
	return l != nil && len(l.waiting) > 0 && l.waiting[0].at <= then
}

func (l *lane) isIdle() bool {
	return len(l.waiting) == 0 && l.inFlight == 0 && l.first == nil && l.room == nil
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

// join adds s behind all receivers that look at least as far ahead.
func (l *lane) join(s *place) {
	before := l.last
	for before != nil && before.waiter.ahead < s.waiter.ahead {
		before = before.prev
	}
	s.prev = before
	if before == nil {
		s.next, l.first = l.first, s
	} else {
		s.next, before.next = before.next, s
	}
	if s.next == nil {
		l.last = s
	} else {
		s.next.prev = s
	}
}

func (l *lane) leave(s *place) {
	if s.prev == nil {
		l.first = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		l.last = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
}

// lane returns the lane of that name, a new one if there is none.
func (d *Driver) lane(name queue.Name) *lane {
	if l, found := d.lanes[name]; found {
		return l
	}
	l := &lane{}
	if last := len(d.lanesSpare) - 1; last >= 0 {
		l, d.lanesSpare = d.lanesSpare[last], d.lanesSpare[:last]
	}
	l.name = name
	d.lanes[name] = l
	return l
}

// dropIdle drops an unused lane, so that deleted lambdas cost nothing.
func (d *Driver) dropIdle(l *lane) {
	if !l.isIdle() || d.lanes[l.name] != l {
		return
	}
	delete(d.lanes, l.name)
	if len(d.lanesSpare) < lanesSpareMax && cap(l.waiting) <= entriesSpareMax {
		d.lanesSpare = append(d.lanesSpare, l)
	}
}

package mem

import "github.com/kinesin-io/kinesin/queue"

// line is one queue. It exists while it holds a message or somebody waits for one.
type line struct {
	name     queue.Name
	waiting  entries
	inFlight int
	room     chan struct{} // not nil since a send was refused; closed below half the bound

	// The receivers that wait here: those that look further ahead first, then in
	// order of arrival. Only the first is woken and only the first keeps time: whatever is
	// not yet ripe for it is ripe for no other.
	first, last *stand
}

// stand is the place of one waiting receiver in one line.
type stand struct {
	waiter     *waiter
	line       *line
	prev, next *stand
}

func (l *line) isIdle() bool {
	return len(l.waiting) == 0 && l.inFlight == 0 && l.first == nil && l.room == nil
}

var closedRoom = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (l *line) makeRoom() chan struct{} {
	if l.room == nil {
		l.room = make(chan struct{})
	}
	return l.room
}

func (l *line) openRoom() {
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

// join lines up s behind all that look at least as far ahead.
func (l *line) join(s *stand) {
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

func (l *line) leave(s *stand) {
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

// line finds or makes the line of that name.
func (d *Driver) line(name queue.Name) *line {
	if l, found := d.lines[name]; found {
		return l
	}
	l := &line{}
	if last := len(d.linesSpare) - 1; last >= 0 {
		l, d.linesSpare = d.linesSpare[last], d.linesSpare[:last]
	}
	l.name = name
	d.lines[name] = l
	return l
}

// forgetIdle drops a line that nobody needs, so that lambdas that are gone cost nothing.
func (d *Driver) forgetIdle(l *line) {
	if !l.isIdle() || d.lines[l.name] != l {
		return
	}
	delete(d.lines, l.name)
	if len(d.linesSpare) < linesSpareMax && cap(l.waiting) <= entriesSpareMax {
		d.linesSpare = append(d.linesSpare, l)
	}
}

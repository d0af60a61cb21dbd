// Package room shares out what there is a bounded number of: bytes of requests, calls of a kind that are
// under way, rows of a kind that are stored. A Room has a share for each who takes of it, so that nobody takes
// what all others need, and a part that is kept for those who look after the installation.
package room

import (
	"container/list"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// waitersMax bounds the calls of one caller that wait for room.
const waitersMax = 1024

// ErrFull says that a caller has as much as it may have for now, or that all is taken.
var ErrFull = errors.New("no room")

// Room is a bounded number of something. A caller may have as much of it as is left for others: alone half of
// the Room, as one of two a third each, and so on. So however much some have taken, there is a part for who
// comes next, until many have taken as much as they may. A part of the Room is kept for urgent callers, which
// have no share: they may have whatever is left. It is safe for concurrent use.
type Room struct {
	// Name is the label of the Room in metrics and in the log.
	Name string
	// Refused is called each time when somebody is refused. It is set before the first use, and may be nil.
	Refused func(who string)

	most, kept int64

	mu      sync.Mutex // guards what stands here, and all of the callers and their waiters
	used    int64
	callers map[string]*caller
	waiting list.List // of *caller, in the order of their turns
}

// caller is one who has something of a Room, or waits for it.
type caller struct {
	who    string
	own    int64
	stays  int       // that hold something
	stuck  int       // of the stays: those that wait for more
	queue  []*waiter // those of stuck stays first, and else in their order
	inTurn *list.Element
}

// waiter is a Stay that waits for more.
type waiter struct {
	n       int64
	stay    *Stay
	stuck   bool          // it holds something
	over    chan struct{} // closed when it has what it waits for, or is refused
	refused bool
}

// New returns a Room of so much, of which a part is kept for urgent callers.
func New(name string, most, kept int64) *Room {
	return &Room{Name: name, most: most, kept: kept, callers: map[string]*caller{}}
}

// Most returns how much there is.
func (r *Room) Most() int64 { return r.most }

// Used returns how much is taken.
func (r *Room) Used() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// IsFull reports whether hardly anything is left for who comes next.
func (r *Room) IsFull() bool {
	const leftPart = 32 // of what is not kept
	open := r.most - r.kept
	return open-r.Used() < max(open/leftPart, 1)
}

// Admits reports whether a caller may store one more row, where so many are stored, own of them by it. For
// rows: a Room of which something is taken counts by itself.
func (r *Room) Admits(who string, used, own int64, urgent bool) bool {
	r.mu.Lock()
	r.used = used
	admits := r.allows(own, 1, urgent)
	r.mu.Unlock()
	if !admits {
		r.refuse(who)
	}
	return admits
}

// Take takes so much at once, or nothing. leave gives it back.
func (r *Room) Take(who string, n int64, urgent bool) (leave func(), ok bool) {
	s := r.Enter(who, urgent)
	if !s.Take(n) {
		return nil, false
	}
	return s.Leave, true
}

// Enter begins a stay, which holds nothing yet.
func (r *Room) Enter(who string, urgent bool) *Stay { return &Stay{room: r, who: who, urgent: urgent} }

// allows reports whether somebody who has own may have n more.
func (r *Room) allows(own, n int64, urgent bool) bool {
	if urgent {
		return r.used+n <= r.most
	}
	return own+n <= r.most-r.kept-r.used
}

func (r *Room) refuse(who string) {
	if r.Refused != nil {
		r.Refused(who)
	}
}

// Stay is what one call holds of a Room. It is not safe for concurrent use.
type Stay struct {
	room   *Room
	who    string
	urgent bool
	held   int64
}

// Room returns of which Room it is.
func (s *Stay) Room() *Room { return s.room }

// Held returns how much it holds.
func (s *Stay) Held() int64 { return s.held }

// Take takes so much more at once, or nothing.
func (s *Stay) Take(n int64) bool {
	r := s.room
	r.mu.Lock()
	c := r.callerOf(s.who)
	taken := s.takes(c, n)
	r.forget(c)
	r.mu.Unlock()
	if !taken {
		r.refuse(s.who)
	}
	return taken
}

// Wait takes so much more, and waits for it if need be, behind others of its caller. ErrFull: there was no room
// within that time or until the context ended, or all that the caller has waits for more, so that nothing would
// ever be given back.
func (s *Stay) Wait(ctx context.Context, within time.Duration, n int64) error {
	r := s.room
	r.mu.Lock()
	c := r.callerOf(s.who)
	if (len(c.queue) == 0 || s.held > 0) && s.takes(c, n) {
		r.mu.Unlock()
		return nil
	}
	w := &waiter{n: n, stay: s, stuck: s.held > 0, over: make(chan struct{})}
	waits := c.line(w)
	if waits && c.inTurn == nil {
		c.inTurn = r.waiting.PushBack(c)
	}
	r.forget(c)
	r.mu.Unlock()
	if waits && r.await(ctx, within, c, w) {
		return nil
	}
	r.refuse(s.who)
	return ErrFull
}

// await waits until a waiter has what it waits for, and reports whether it got it.
func (r *Room) await(ctx context.Context, within time.Duration, c *caller, w *waiter) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-w.over:
		return !w.refused
	case <-ctx.Done():
	case <-timer.C:
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := slices.Index(c.queue, w)
	if at < 0 {
		return !w.refused // it is over meanwhile
	}
	c.unline(at)
	r.forget(c)
	r.next() // another one may have waited behind it
	return false
}

// Shrink gives back what is held above n.
func (s *Stay) Shrink(n int64) {
	spare := s.held - n
	if spare <= 0 {
		return
	}
	r := s.room
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.callers[s.who]
	s.held -= spare
	c.own -= spare
	r.used -= spare
	if s.held == 0 {
		c.stays--
	}
	r.next()
	if c.stuck > 0 && c.stuck == c.stays { // as in line
		last := c.queue[c.stuck-1]
		last.refused = true
		c.unline(c.stuck - 1)
		close(last.over)
	}
	r.forget(c)
}

// Leave gives back all that is held.
func (s *Stay) Leave() { s.Shrink(0) }

// takes takes n if it may be had. Call it with mu held, as all that follows.
func (s *Stay) takes(c *caller, n int64) bool {
	if !s.room.allows(c.own, n, s.urgent) {
		return false
	}
	if s.held == 0 && n > 0 {
		c.stays++
	}
	s.held += n
	c.own += n
	s.room.used += n
	return true
}

func (r *Room) callerOf(who string) *caller {
	c := r.callers[who]
	if c == nil {
		c = &caller{who: who}
		r.callers[who] = c
	}
	return c
}

// forget drops a caller that has nothing and waits for nothing.
func (r *Room) forget(c *caller) {
	if c.stays == 0 && len(c.queue) == 0 && r.callers[c.who] == c {
		delete(r.callers, c.who)
	}
	if len(c.queue) == 0 && c.inTurn != nil {
		r.waiting.Remove(c.inTurn)
		c.inTurn = nil
	}
}

// line has a waiter wait for its turn. It refuses the last of the stays that hold something to wait, since
// none of the others would go on and give back what it holds.
func (c *caller) line(w *waiter) bool {
	if len(c.queue) >= waitersMax || w.stuck && c.stuck+1 >= c.stays {
		return false
	}
	at := len(c.queue)
	if w.stuck { // it goes first, since it gives back more than it waits for
		at = c.stuck
		c.stuck++
	}
	c.queue = slices.Insert(c.queue, at, w)
	return true
}

func (c *caller) unline(at int) {
	if c.queue[at].stuck {
		c.stuck--
	}
	c.queue = slices.Delete(c.queue, at, at+1)
}

// next gives room to those who wait: each caller in turn, in the order of its own.
func (r *Room) next() {
	for skipped := 0; skipped < r.waiting.Len(); {
		first := r.waiting.Front()
		c, _ := first.Value.(*caller)
		r.waiting.MoveToBack(first)
		w := c.queue[0]
		if !w.stay.takes(c, w.n) {
			skipped++
			continue
		}
		skipped = 0
		c.unline(0)
		close(w.over)
		r.forget(c)
	}
}

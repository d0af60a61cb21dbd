// Package limit counts and holds back starts: a Limiter keeps a rate exactly over all servers, without an owner and
// without clocks in step; Slots count what runs, on the server that owns the lambda; Retries keep the retry budget
// of a server. What is allowed is the caller's: see internal/feature/quota. The package reads and writes no task.
package limit

import (
	"context"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// refillAt is when the next reservation is made: when so much is left of what is.
	refillAt = 100 * time.Millisecond
	// againMin and againMax bound after what time a caller comes again.
	againMin, againMax = 20 * time.Millisecond, 250 * time.Millisecond
	// waitingFor is for how long a caller counts as waiting that does not come again.
	waitingFor = 2 * againMax
	// linesMax is how many lines are kept; beyond it those that nobody used for lineIdle are forgotten.
	linesMax = 1024
	lineIdle = 10 * time.Second
)

// Rows is where a limiter keeps its lines.
type Rows interface {
	Control(ctx context.Context, kind, name string) (store.Control, error)
	PutControl(ctx context.Context, c store.Control) error
}

// Limiter keeps rates over all servers that share its rows. It is safe for concurrent use, and never waits.
type Limiter struct {
	rows  Rows // nil: this server is alone, and nothing is written
	clock clock.Clock

	underWay sync.WaitGroup // reservations

	mu    sync.Mutex // guards lines, and all that is in them
	lines map[string]*line
}

// NewLimiter returns a limiter. rows is nil for a server that shares its store with no other: then nothing is
// written, and after a start a burst may begin at once.
func NewLimiter(rows Rows, c clock.Clock) *Limiter {
	return &Limiter{rows: rows, clock: c, lines: map[string]*line{}}
}

// Ask says what a caller wants of a rate.
type Ask struct {
	Name    string // of what is limited; the same on all servers
	Rate    float64
	Burst   uint32   // 0: what the rate gives in 100 ms, at least 1
	Caller  any      // who asks: what waits for it counts once
	Class   uint8    // lower classes that wait on this server go first
	Weights []uint16 // of the classes, which then take turns instead; nil: lower ones go first
	Want    int      // starts that can be made now
	Wait    int      // starts that wait, Want included; so many are reserved
}

// Wait says when a caller that did not get all is to come again.
type Wait struct {
	Again task.Instant
	More  <-chan struct{} // closed when it may come earlier; nil: it need not listen
}

// line is what a server has of one line of starts. The limiter's mutex guards it.
type line struct {
	name string
	pace pace

	have     []reservation // reserved and not spent, in order
	waiting  map[any]waiting
	turns    turns // of classes that have weights
	promised nanos // until when callers were told to come again
	used     nanos

	reserving bool
	reserved  chan struct{} // closed when the reservation under way is over
	notBefore nanos         // for the next reservation: others have reserved until then, or the store failed
	failures  int           // of the store, in a row
	took      nanos         // the latest reservation, at most tookMax
	tat       nanos         // of a server that is alone
	row       store.Control // as it was seen last
}

// waiting is what waits for a caller.
type waiting struct {
	count int
	class uint8
	since nanos
	again nanos // when it was told to come again
}

// Take spends up to a.Want starts whose time has come.
func (l *Limiter) Take(a Ask) (granted int, wait Wait) {
	if a.Want <= 0 {
		return 0, Wait{}
	}
	a.Wait = max(a.Wait, a.Want)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	o := l.line(a.Name, pace{a.Rate, a.Burst}, now)
	o.lapse(now)
	granted = o.grant(&a, now)
	if l.refill(o, now) {
		granted += o.grant(&a, now)
	}
	if a.Want == 0 {
		return granted, Wait{}
	}
	return granted, o.wait(&a, now)
}

// Return gives starts back that were taken and not made; not more than may be made together.
func (l *Limiter) Return(name string, count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.lines[name]
	if o == nil {
		return
	}
	most := int(float64(o.pace.lapse())/o.pace.interval()) + 1
	for i := range o.have {
		if o.have[i].interval == 0 {
			most -= o.have[i].count
		}
	}
	if count = min(count, most); count > 0 {
		o.have = append([]reservation{{first: l.now(), count: count}}, o.have...)
	}
}

// Wait waits for the reservations that are under way.
func (l *Limiter) Wait() { l.underWay.Wait() }

func (l *Limiter) now() nanos { return nanos(l.clock.Now()) * nanos(time.Microsecond) }

// line returns the line of a name. One whose rate was changed begins anew; what it had is lost.
func (l *Limiter) line(name string, p pace, now nanos) *line {
	o := l.lines[name]
	switch {
	case o == nil:
		l.forgetIdle(now)
		o = &line{name: name, pace: p, waiting: map[any]waiting{}}
		l.lines[name] = o
	case o.pace != p:
		o.pace, o.have, o.promised, o.notBefore = p, nil, 0, 0
	}
	o.used = now
	return o
}

func (l *Limiter) forgetIdle(now nanos) {
	if len(l.lines) < linesMax {
		return
	}
	for name, o := range l.lines {
		if !o.reserving && now-o.used > nanos(lineIdle) {
			delete(l.lines, name)
		}
	}
}

// lapse drops starts that were not made in time: made up for together, they would be more than a burst. It
// also drops those that are so far ahead that the clock must have been set back.
func (o *line) lapse(now nanos) {
	kept := o.have[:0]
	for _, s := range o.have {
		if s.interval > 0 {
			s.drop(s.upTo(now - o.pace.lapse() - 1))
		} else if s.first < now-o.pace.lapse() {
			s.count = 0
		}
		if s.count > 0 && s.first <= now+o.pace.aheadMax() {
			kept = append(kept, s)
		}
	}
	o.have = kept
	for caller, w := range o.waiting {
		if now-w.since > nanos(waitingFor) || w.since > now {
			delete(o.waiting, caller)
		}
	}
}

// grant spends what has come up to now and is not for another class that waits. It notes what still waits.
func (o *line) grant(a *Ask, now nanos) (granted int) {
	ready := 0
	for i := range o.have {
		ready += o.have[i].upTo(now)
	}
	granted = o.mine(a, ready)
	for i, left := 0, granted; left > 0; i++ {
		n := min(left, o.have[i].upTo(now))
		o.have[i].drop(n)
		left -= n
	}
	a.Want, a.Wait = a.Want-granted, a.Wait-granted
	if a.Wait == 0 {
		delete(o.waiting, a.Caller)
	} else {
		o.waiting[a.Caller] = waiting{a.Wait, a.Class, now, o.waiting[a.Caller].again}
	}
	return granted
}

// mine returns how many of the starts that have come a caller gets, besides others that wait.
func (o *line) mine(a *Ask, ready int) (granted int) {
	var others [task.PrioritiesMax]int
	isNew := true // of its class
	for caller, w := range o.waiting {
		if caller != a.Caller {
			others[w.class] += w.count
		}
		isNew = isNew && w.class != a.Class
	}
	if len(a.Weights) > 0 {
		if isNew {
			o.turns.join(a.Class)
		}
		return o.turns.give(a.Class, a.Want, ready, others, a.Weights)
	}
	for _, count := range others[:a.Class] {
		ready -= count
	}
	return min(a.Want, max(0, ready))
}

// wait says when a caller that waits comes again: those that wait come one after the other, each for the next
// start, and for several at a time where starts are close together.
func (o *line) wait(a *Ask, now nanos) Wait {
	w := o.waiting[a.Caller]
	if w.again > now {
		return Wait{Again: w.again.instant()}
	}
	interval, latest := nanos(o.pace.interval()), now+nanos(againMax)
	next, ok := o.next(now)
	switch {
	case ok:
		if w.again = next; interval < nanos(againMin) {
			w.again = max(next, now+nanos(againMin))
		}
		if o.promised > now {
			w.again = max(w.again, o.promised+max(interval, nanos(againMin)))
		}
		w.again = min(w.again, latest)
		o.promised = w.again
		o.waiting[a.Caller] = w
		return Wait{Again: w.again.instant()}
	case o.reserving:
		return Wait{Again: latest.instant(), More: o.reserved}
	}
	return Wait{Again: min(max(o.notBefore, now+nanos(againMin)), latest).instant()}
}

// next returns the time of the first start that is to come.
func (o *line) next(now nanos) (at nanos, ok bool) {
	for i := range o.have {
		if n := o.have[i].upTo(now); n < o.have[i].count && (!ok || o.have[i].at(n) < at) {
			at, ok = o.have[i].at(n), true
		}
	}
	return at, ok
}

// instant rounds up to microseconds, so that a start has come by then.
func (t nanos) instant() task.Instant {
	return task.Instant((t + nanos(time.Microsecond) - 1) / nanos(time.Microsecond))
}

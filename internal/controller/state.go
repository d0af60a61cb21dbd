package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/minheap"
	"github.com/kinesin-io/kinesin/task"
)

// session is one lease of this process, from Register to Leave or loss.
type session struct {
	cfg *Config
	ctx context.Context //nolint:containedctx // has the values for handlers and the log; it never ends

	worker         string
	proof          []byte        // shows the server that the lease is this process's; empty: the server wants none
	length         time.Duration // of the lease
	valid          time.Duration // how long after a heartbeat's sending the process may act
	heartbeatEvery time.Duration
	steps          *clock.Steps // of the wall clock, logged with each heartbeat
	groups         []*group
	byLambda       map[string]*group
	flushAt        int // so many reports are sent without waiting for more

	serverZero atomic.Int64 // task.Instant that the server's clock showed when our monotonic clock showed zero

	gone         chan struct{} // closed when the lease is lost
	progress     chan struct{} // holds one value when a drain or a loss has come further
	outboxReady  chan struct{} // holds one value when the writer must look at the outbox
	timerChanged chan struct{} // holds one value when the timer loop sleeps too long
	heartbeatNow chan struct{} // holds one value when a heartbeat is to be sent at once

	mu        sync.Mutex // guards what follows and the attempts; never held across a call
	attempts  map[key]*attempt
	admitted  uint64                      // how many attempts were
	dues      map[task.Instant][]*attempt // early attempts by their due times; an empty list for a time that fires
	running   int
	busy      bool // a handler was started since the timer loop last woke
	timeline  timeline
	wakesAt   time.Duration // monotonic; when the timer loop wakes up
	outbox    outbox
	fencedOff []*attempt // for the hook, to be called without the lock
	draining  bool

	giveUp     context.CancelCauseFunc // of the newest stream
	answeredAt time.Duration           // monotonic; when the newest stream began, or results were last answered on it
	takenAt    time.Duration           // monotonic; when the server last took a result, or refused one for good
	toldAt     time.Duration           // monotonic; when it was last logged that the server takes none

	renewed     clock.Readings // when the last accepted heartbeat was sent
	misses      int            // heartbeats in a row that failed
	unconfirmed bool           // by the wall clock alone the lease has ended: nothing starts until a heartbeat confirms it
	lost        bool
	lostWhy     string
	lostRunning int
	kept        []*attempt // with results, which the next registration sends
}

// group is a pool of slots.
type group struct {
	slots int

	// Guarded by session.mu.
	running int
	waiting []*attempt // for a slot: while attempts are short the server sends more than there are slots
}

// key names an attempt.
type key struct {
	task    task.ID
	attempt uint32
}

// stage is how far an attempt has come.
type stage uint8

const (
	early   stage = iota // waits for its due time
	waiting              // waits for a slot
	running              // its handler runs
	ended                // its result is not acknowledged yet
)

// attempt is one claimed task that this process has. All fields but the first group are guarded by
// session.mu.
type attempt struct {
	minheap.Place // in the timeline

	key     key
	work    *kinesinv1.Claimed
	due     task.Instant
	timeout time.Duration // zero: none
	group   *group
	// number counts the attempts that were admitted before.
	number uint64

	state stage
	ctx   *handlerContext // nil: it has no slot yet
	// outcome is what its handler returned. It belongs to the handler's goroutine.
	outcome Outcome

	start     time.Duration // monotonic
	startedAt task.Instant  // on the server's clock
	reported  bool          // that it started
	overdue   bool          // its timeout has passed
	dropped   bool          // its result is not sent

	result  *kinesinv1.Result
	endedAt time.Duration // monotonic; when it had its result
	sent    bool          // on the stream that is open
	sends   int           // that the server asked to repeat

	alarm time.Duration // monotonic; when the timeline has to look at the attempt
}

// handlerContext is the context of a handler. The timeline ends it at the deadline, with ErrTimeout as its
// cause.
type handlerContext struct {
	context.Context //nolint:containedctx // it is one

	session  *session
	deadline time.Time
	cancel   context.CancelCauseFunc // of Context

	mu    sync.Mutex    // guards what follows
	done  chan struct{} // closed when Context has ended; nil: nobody has asked for it
	ended bool
}

// end ends the context, with a cause. Only the first call counts.
func (c *handlerContext) end(cause error) {
	c.cancel(cause)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended && c.done != nil {
		close(c.done)
	}
	c.ended = true
}

// outbox is what waits to be sent, in order.
type outbox struct {
	results []*attempt
	started []*attempt
	prompt  bool          // somebody waits for one of the results
	drain   bool          // tell the server to send no more
	last    time.Duration // monotonic; when something was last sent
}

// timeline orders the attempts that have an alarm, the earliest first. One timer serves them all.
type timeline struct{ minheap.Heap[*attempt] }

func keyOf(id []byte, attempt uint32) (k key, ok bool) {
	k.attempt = attempt
	return k, len(id) == copy(k.task[:], id) && len(id) == len(k.task)
}

func (k key) held() *kinesinv1.Held { return &kinesinv1.Held{Task: k.task[:], Attempt: k.attempt} }

func attemptOf(k key, c *kinesinv1.Claimed, g *group) *attempt {
	return &attempt{key: k, work: c, due: task.Instant(c.Due), timeout: task.Micros(c.Timeout), group: g}
}

// end sets the result of an attempt.
func (a *attempt) end(o Outcome) {
	if n := len(o.Result); n > task.ResultBytesMax {
		o = Outcome{Kind: task.OutcomeRetriable, Error: fmt.Sprintf("the result has %d bytes: at most %d are kept with a task", n, task.ResultBytesMax)}
	}
	a.state = ended
	a.result = &kinesinv1.Result{
		Task: a.key.task[:], Attempt: a.key.attempt, Outcome: o.Kind.String(),
		Error: task.ErrorText(o.Error), Started: int64(a.startedAt), Delay: o.Delay.Microseconds(),
		Result: o.Result, Add: o.Add,
	}
}

// waitMax is how long a task may wait for a slot here before it is given back, because other workers may have
// free ones.
const waitMax = 50 * time.Millisecond

// takeSlot gives an attempt its slot; false when it has to wait for one, or for the lease to be confirmed.
// Call with mu held.
func (s *session) takeSlot(a *attempt, now time.Duration) bool {
	if a.group.running >= a.group.slots || s.unconfirmed {
		a.state = waiting
		a.group.waiting = append(a.group.waiting, a)
		s.setAlarm(a, now+waitMax)
		return false
	}
	a.group.running++
	s.running++
	s.busy = true
	a.state = running
	a.start = now
	a.startedAt = max(s.serverNow(), a.due) // by the server's clock it is due
	a.ctx = s.handlerContext(a)
	if at := a.nextAlarm(); at != forever {
		s.setAlarm(a, at)
	}
	return true
}

func (s *session) nextWaiting(g *group, now clock.Readings) *attempt {
	if len(g.waiting) == 0 || g.running >= g.slots || s.draining || !s.holdsLocked(now) || s.unconfirmed {
		return nil
	}
	next := g.waiting[0]
	g.waiting = g.waiting[1:]
	s.takeSlot(next, now.Mono)
	return next
}

// withdraw takes an attempt that does not run off the timeline and out of the wait for a slot. Call with mu
// held.
func (s *session) withdraw(a *attempt) {
	s.timeline.Remove(a)
	if a.state == early {
		s.dues[a.due] = without(s.dues[a.due], a)
		if len(s.dues[a.due]) == 0 {
			delete(s.dues, a.due)
		}
	}
	if a.state == waiting {
		a.group.waiting = without(a.group.waiting, a)
	}
}

// without returns a copy without one attempt.
func without(attempts []*attempt, a *attempt) []*attempt {
	if i := slices.Index(attempts, a); i >= 0 {
		return slices.Concat(attempts[:i], attempts[i+1:])
	}
	return attempts
}

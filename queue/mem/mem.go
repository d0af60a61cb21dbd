// Package mem is the queue driver of a single process: messages live in memory and are lost with it. It
// hands out the earliest due first, at the microsecond. It calls nothing but its clock and starts no
// goroutine: the first waiting receiver of a queue sets a timer for it. After a restart the scheduler sends
// everything again.
package mem

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// Limits of the driver.
const (
	// DepthMaxDefault is the default of Config.DepthMax.
	DepthMaxDefault = 10_000
	// recheckMax bounds how long a receiver relies on a timer: when the wall clock is set forward, messages
	// are due sooner.
	recheckMax = time.Second
)

// Config are the settings of a Driver.
type Config struct {
	// DepthMax is how many waiting messages each queue takes; 10,000 when it is not positive. Received
	// messages do not count, since receivers bound them, and may always be released.
	DepthMax int
}

// Driver implements queue.Driver, queue.Dropper, queue.Stepper and queue.Weigher.
type Driver struct {
	clock    clock.Clock
	depthMax int

	mu         sync.Mutex // guards all below; held for work on memory only
	lanes      map[queue.Name]*lane
	received   map[string]*message // by receipt
	arrivals   uint64              // orders messages that are due at the same instant
	deliveries uint64              // number of deliveries so far; each has its number for a receipt
	turns      queue.Turns
	spare      sync.Pool // of *message, since garbage would be most of what a message costs
	closed     bool
}

var (
	_ queue.Driver  = (*Driver)(nil)
	_ queue.Dropper = (*Driver)(nil)
	_ queue.Stepper = (*Driver)(nil)
	_ queue.Weigher = (*Driver)(nil)
)

// New returns an empty driver.
func New(c clock.Clock, config Config) *Driver {
	return &Driver{
		clock:    c,
		depthMax: cmp.Or(max(config.DepthMax, 0), DepthMaxDefault),
		lanes:    map[queue.Name]*lane{},
		received: map[string]*message{},
	}
}

// UseWeights implements queue.Weigher.
func (d *Driver) UseWeights(of func(lambda uint32) []uint16) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turns.Use(of)
}

// Depth implements queue.Driver.
func (d *Driver) Depth(ctx context.Context, name queue.Name) (queue.Depth, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(ctx); err != nil {
		return queue.Depth{}, err
	}
	l, found := d.lanes[name]
	if !found {
		return queue.Depth{}, nil
	}
	now, steady := clock.Both(d.clock)
	return queue.Depth{Visible: len(l.waiting), InFlight: l.inFlight, Oldest: l.waiting.oldest(now, steady)}, nil
}

// Room implements queue.Driver. The channel is closed when the queue falls below half of its bound. It is
// already closed when the queue has not been full since.
func (d *Driver) Room(name queue.Name) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, found := d.lanes[name]
	if !found || d.closed || (l.room == nil && len(l.waiting) < d.depthMax) {
		return closedRoom
	}
	return l.roomChannel()
}

// ClockStepped implements queue.Stepper. A message that was released with a delay stays hidden for the rest
// of that delay, and the step does not change how long messages have waited. A message that is not due
// waits for the same instant.
func (d *Driver) ClockStepped(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, steady := clock.Both(d.clock)
	for _, l := range d.lanes {
		old := l.waiting
		l.waiting = make(entries, 0, len(old))
		for _, e := range old {
			if due := e.message.Task.HeldUntil(); e.at > due {
				e.at = max(due, e.at.Add(by))
			}
			if e.since > steady || e.at > now { // it was or is hidden
				e.since = steady.Add(max(e.at, now).Sub(now))
			}
			l.waiting.push(e)
		}
		d.notify(l, now)
	}
}

// Durable implements queue.Driver. The messages are lost with the process.
func (d *Driver) Durable() bool { return false }

// Drop implements queue.Dropper. It also removes received messages.
func (d *Driver) Drop(_ context.Context, lambda uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.received, func(_ string, m *message) bool { return m.lane.name.Lambda == lambda })
	for name, l := range d.lanes {
		if name.Lambda == lambda {
			l.waiting, l.inFlight = nil, 0
			l.signalRoom()
			d.dropIdle(l)
		}
	}
	return nil
}

// Close implements queue.Driver. Waiting messages are lost.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, l := range d.lanes {
		l.waiting, l.inFlight = nil, 0
		l.signalRoom()
		for _, w := range l.waiters {
			w.wakeUp()
		}
	}
	clear(d.received)
	return nil
}

// usable returns why a call cannot be served.
func (d *Driver) usable(ctx context.Context) error {
	if d.closed {
		return queue.ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

// lane returns the lane of that name, a new one if there is none.
func (d *Driver) lane(name queue.Name) *lane {
	if l, found := d.lanes[name]; found {
		return l
	}
	l := &lane{name: name}
	d.lanes[name] = l
	return l
}

// dropIdle drops an unused lane, so that deleted lambdas cost nothing.
func (d *Driver) dropIdle(l *lane) {
	if l.isIdle() && d.lanes[l.name] == l {
		delete(d.lanes, l.name)
	}
}

// notify wakes the first waiter of a lane if it may take the earliest message, and sets its timer otherwise.
func (d *Driver) notify(l *lane, now task.Instant) {
	if len(l.waiters) == 0 || len(l.waiting) == 0 {
		return
	}
	w := l.waiters[0]
	wakeAt := l.waiting[0].at.Add(-(w.ahead / 2))
	if wakeAt <= now {
		w.wakeUp()
		return
	}
	if w.armed == 0 || wakeAt < w.armed {
		w.armed = wakeAt
		w.timer.Reset(min(wakeAt.Sub(now), recheckMax))
	}
}

// Send implements queue.Driver. It never waits.
func (d *Driver) Send(ctx context.Context, messages []queue.Message) []error {
	results := make([]error, len(messages))
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(ctx); err != nil {
		for i := range results {
			results[i] = err
		}
		return results
	}
	now, steady := clock.Both(d.clock)
	for i := range messages {
		results[i] = d.send(&messages[i], now, steady)
	}
	return results
}

func (d *Driver) send(m *queue.Message, now, steady task.Instant) error {
	l := d.lane(queue.NameFor(&m.Task))
	if len(l.waiting) >= d.depthMax {
		l.roomChannel()
		return queue.ErrFull
	}
	kept, ok := d.spare.Get().(*message)
	if !ok {
		kept = &message{}
	}
	kept.Message, kept.lane = *m, l
	d.insert(kept, m.Task.HeldUntil(), now, steady)
	return nil
}

// insert puts a message into its lane, hidden until at. steady is now by clock.Steady.
func (d *Driver) insert(m *message, at, now, steady task.Instant) {
	d.arrivals++
	first := m.lane.waiting.push(entry{at: at, arrival: d.arrivals, since: steady.Add(max(at, now).Sub(now)), message: m})
	if first { // otherwise a receiver was woken, or waits, for an earlier one
		d.notify(m.lane, now)
	}
}

// Delete implements queue.Driver. It ignores messages that are no longer held.
func (d *Driver) Delete(_ context.Context, messages []queue.Message) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range messages {
		if m := d.takeBack(messages[i].Receipt); m != nil {
			d.dropIdle(m.lane)
			*m = message{}
			d.spare.Put(m)
		}
	}
	return nil
}

// Release implements queue.Driver. It ignores messages that are no longer held.
func (d *Driver) Release(_ context.Context, messages []queue.Message, delay time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, steady := clock.Both(d.clock)
	for i := range messages {
		if m := d.takeBack(messages[i].Receipt); m != nil {
			d.insert(m, max(m.Task.HeldUntil(), now.Add(max(delay, 0))), now, steady)
		}
	}
	return nil
}

// takeBack ends a delivery and returns its message; nil when it has ended.
func (d *Driver) takeBack(receipt string) *message {
	m := d.received[receipt]
	if m != nil {
		delete(d.received, receipt)
		m.lane.inFlight--
	}
	return m
}

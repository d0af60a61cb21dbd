// Package mem is the queue driver of a single process: messages live in memory
// and are gone with it. It owns the waiting and the received messages and hands out
// the earliest due first, at the microsecond. It calls nothing but its clock and starts no
// goroutine: the first waiting receiver of a queue keeps the time for it. It never
// decides what becomes of a task; after a restart the scheduler sends everything again.
package mem

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// Limits of the driver.
const (
	// DepthMaxDefault is how many messages one queue holds unless Config says otherwise.
	DepthMaxDefault = 10_000
	// recheckMax bounds how long a receiver trusts a timer: the wall clock may be set
	// forward, and then messages are due sooner than the timer knows.
	recheckMax = time.Second
	// linesSpareMax and waitersSpareMax bound what is kept for reuse.
	linesSpareMax   = 64
	waitersSpareMax = 1024
)

// Config are the settings of a Driver.
type Config struct {
	// DepthMax is how many waiting messages each queue takes; 10,000 when it is not positive. Received
	// messages do not count, since whoever receives them bounds them, and may always be released.
	DepthMax int
}

// Driver implements queue.Driver, queue.Dropper and queue.Stepper.
type Driver struct {
	clock    clock.Clock
	depthMax int

	mu         sync.Mutex // guards all below; held for work on memory only
	lines      map[queue.Name]*line
	slots      slab
	arrivals   uint64 // orders messages that are due at the same instant
	deliveries uint64 // numbers deliveries; part of the receipt
	picked     []uint32
	closed     bool

	linesSpare   []*line
	waitersSpare []*waiter
}

var (
	_ queue.Driver  = (*Driver)(nil)
	_ queue.Dropper = (*Driver)(nil)
	_ queue.Stepper = (*Driver)(nil)
)

// New returns an empty driver.
func New(c clock.Clock, config Config) *Driver {
	return &Driver{
		clock:    c,
		depthMax: cmp.Or(max(config.DepthMax, 0), DepthMaxDefault),
		lines:    map[queue.Name]*line{},
	}
}

// Send implements queue.Driver. It never waits.
func (d *Driver) Send(ctx context.Context, messages []queue.Message) []error {
	results := make([]error, len(messages))
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.refusal(ctx); err != nil {
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
	l := d.line(queue.NameFor(&m.Task))
	if len(l.waiting) >= d.depthMax {
		l.makeRoom()
		return queue.ErrFull
	}
	i := d.slots.take()
	s := d.slots.at(i)
	s.line = l
	s.message.Task, s.message.Again = m.Task, m.Again
	d.enter(l, i, m.Task.HeldUntil(), now, steady)
	return nil
}

// enter makes the message of slot i wait in its line, hidden until at. steady is now by clock.Steady.
func (d *Driver) enter(l *line, i uint32, at, now, steady task.Instant) {
	d.arrivals++
	first := l.waiting.push(entry{at: at, arrival: d.arrivals, since: steady.Add(max(at, now).Sub(now)), slot: i})
	if first { // otherwise a receiver is already up, or waits, for an earlier one
		d.tend(l, now)
	}
}

// Delete implements queue.Driver. Messages that are no longer held are passed over.
func (d *Driver) Delete(_ context.Context, messages []queue.Message) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range messages {
		if at, s := d.held(messages[i].Receipt); s != nil {
			l := s.line
			l.inFlight--
			d.slots.give(at)
			d.forgetIdle(l)
		}
	}
	d.slots.shrink()
	return nil
}

// Release implements queue.Driver. Messages that are no longer held are passed over.
func (d *Driver) Release(_ context.Context, messages []queue.Message, delay time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, steady := clock.Both(d.clock)
	for i := range messages {
		if at, s := d.held(messages[i].Receipt); s != nil {
			s.delivery = 0
			s.line.inFlight--
			d.enter(s.line, at, max(s.message.Task.HeldUntil(), now.Add(max(delay, 0))), now, steady)
		}
	}
	return nil
}

// held finds the slot of a delivery, nil when the delivery is over.
func (d *Driver) held(receipt string) (uint32, *slot) {
	i, delivery, ok := parseReceipt(receipt)
	if !ok || int(i) >= d.slots.size() {
		return 0, nil
	}
	if s := d.slots.at(i); s.delivery == delivery {
		return i, s
	}
	return 0, nil
}

// Depth implements queue.Driver.
func (d *Driver) Depth(ctx context.Context, name queue.Name) (queue.Depth, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.refusal(ctx); err != nil {
		return queue.Depth{}, err
	}
	l, found := d.lines[name]
	if !found {
		return queue.Depth{}, nil
	}
	now, steady := clock.Both(d.clock)
	return queue.Depth{Visible: len(l.waiting), InFlight: l.inFlight, Oldest: l.waiting.oldest(now, steady)}, nil
}

// Room implements queue.Driver: the channel is closed when the queue has fallen below half its
// bound, and is closed already when the queue has refused nothing since then.
func (d *Driver) Room(name queue.Name) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, found := d.lines[name]
	if !found || d.closed || (l.room == nil && len(l.waiting) < d.depthMax) {
		return closedRoom
	}
	return l.makeRoom()
}

// ClockStepped implements queue.Stepper. A message that was released with a delay is hidden for the rest of
// that delay, and no message has waited longer or shorter by the step. One that waits until it is due waits
// for the same instant.
func (d *Driver) ClockStepped(by time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, steady := clock.Both(d.clock)
	for _, l := range d.lines {
		old := l.waiting
		l.waiting = make(entries, 0, len(old))
		for _, e := range old {
			if due := d.slots.at(e.slot).message.Task.HeldUntil(); e.at > due {
				e.at = max(due, e.at.Add(by))
			}
			if e.since > steady || e.at > now { // it was hidden, or is again
				e.since = steady.Add(max(e.at, now).Sub(now))
			}
			l.waiting.push(e)
		}
		d.tend(l, now)
	}
}

// Durable implements queue.Driver: the messages are gone with the process.
func (d *Driver) Durable() bool { return false }

// Drop implements queue.Dropper: all messages of the lambda are gone, received ones too.
func (d *Driver) Drop(_ context.Context, lambda uint32) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range uint32(d.slots.size()) {
		if s := d.slots.at(i); s.line != nil && s.line.name.Lambda == lambda {
			d.slots.give(i)
		}
	}
	for name, l := range d.lines {
		if name.Lambda == lambda {
			l.waiting, l.inFlight = nil, 0
			l.openRoom()
			d.forgetIdle(l)
		}
	}
	d.slots.shrink()
	return nil
}

// Close implements queue.Driver. What still waits is dropped.
func (d *Driver) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	for _, l := range d.lines {
		l.waiting, l.inFlight = nil, 0
		l.openRoom()
		for s := l.first; s != nil; s = s.next {
			s.waiter.rouse()
		}
	}
	d.slots = slab{}
	return nil
}

// refusal is why no call may be served any more.
func (d *Driver) refusal(ctx context.Context) error {
	if d.closed {
		return queue.ErrClosed
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}

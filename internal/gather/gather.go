// Package gather batches what concurrent callers send. An item waits a moment for others to share its send;
// what comes while all sends are in flight makes the next one larger, so a higher load costs fewer sends for
// each item. The package owns the waiting and the bounds. Its user owns the send itself and its retries. Its
// goroutines end when there is nothing to send.
package gather

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// Why an item was not sent, or is not known to be.
var (
	// ErrNotSent says that an item was never handed to a send; it wraps the reason.
	ErrNotSent = errors.New("not sent")
	// ErrUnderWay says that the caller left while its item was being sent: it may arrive.
	ErrUnderWay = errors.New("being sent; it may arrive")
	// ErrClosed refuses items after Close.
	ErrClosed = errors.New("closed")
)

// Config are the settings of a Gatherer. Clock, Send, ItemsMax and SendsMax are required.
type Config[T any] struct {
	Clock clock.Clock
	// Send sends a batch and returns an error for each item. Its context has no deadline: it must set its
	// own.
	Send func(ctx context.Context, batch []T) []error
	// Bytes returns the size of an item; nil: sizes do not count.
	Bytes func(item T) int

	ItemsMax int           // items of one send
	BytesMax int           // bytes of one send; a larger item goes alone; 0: no bound
	SendsMax int           // sends in flight
	Linger   time.Duration // how long an item waits for others while fewer sends are in flight
	// LoneAtOnce sends an item without a wait when it comes later than Linger after the one before it.
	LoneAtOnce bool
	// Patience is how much longer an item waits while that brings others, until there are Enough items. 0:
	// not at all.
	Patience time.Duration
	Enough   int

	PendingMax      int // pending items; a call with more blocks until there is room. 0: PendingMaxDefault
	PendingBytesMax int // bytes of pending items; one item always fits; 0: no bound
}

// PendingMaxDefault is the default bound of pending items.
const PendingMaxDefault = 10_000

// Gatherer batches items. It is safe for concurrent use.
type Gatherer[T any] struct {
	Config[T]

	mu        sync.Mutex // guards all below; never held while sending
	pending   []entry[T]
	bytes     int           // of pending
	senders   int           // goroutines
	lingering bool          // one of them waits for more items
	enough    chan struct{} // closed when that one must not wait any longer
	room      chan struct{} // closed when pending became shorter; nil when no call waits for that
	patience  patience
	last      time.Duration // monotonic time of the latest item, with LoneAtOnce
	isLone    bool          // no other item came within Linger before the latest
	closed    bool
	idle      chan struct{} // closed when closed and no sender is left
}

// entry is a pending item.
type entry[T any] struct {
	item  T
	bytes int
	call  *call // nil when nobody waits for the result
	at    int   // index in the call
}

// call is one call of Do, guarded by the gatherer's mu.
type call struct {
	results []error // errPending where there is no result yet
	left    int     // items without a result
	done    chan struct{}
}

// errPending never leaves the package.
var errPending = errors.New("pending")

// settle is called once for each item.
func (c *call) settle(at int, err error) {
	c.results[at] = err
	if c.left--; c.left == 0 {
		close(c.done)
	}
}

// New returns a Gatherer.
func New[T any](c Config[T]) *Gatherer[T] {
	c.PendingMax = cmp.Or(c.PendingMax, PendingMaxDefault)
	return &Gatherer[T]{Config: c, patience: patience{skip: skipMin}, idle: make(chan struct{})}
}

// Do sends items and returns a result for each, in order. When ctx ends first, it takes back the items that
// are pending (ErrNotSent); those being sent are ErrUnderWay. It blocks while too many items are pending.
func (g *Gatherer[T]) Do(ctx context.Context, items []T) []error {
	if len(items) == 0 {
		return nil
	}
	c := &call{results: slices.Repeat([]error{errPending}, len(items)), left: len(items), done: make(chan struct{})}
	g.addAll(ctx, c, items)
	select {
	case <-c.done:
	case <-ctx.Done():
		return g.takeBack(c, context.Cause(ctx))
	}
	return c.results
}

// Put has items sent and does not wait for that; no bound of pending items holds it up. It returns false
// after Close, when it drops them.
func (g *Gatherer[T]) Put(items ...T) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.noteArrival()
	for _, item := range items {
		g.push(entry[T]{item: item, bytes: g.bytesOf(item)})
	}
	g.wake(context.Background())
	return true
}

// addAll adds the items of a call, until ctx ends or the gatherer is closed.
func (g *Gatherer[T]) addAll(ctx context.Context, c *call, items []T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.noteArrival()
	for n := range items {
		if err := g.add(ctx, entry[T]{items[n], g.bytesOf(items[n]), c, n}); err != nil {
			for ; n < len(items); n++ {
				c.settle(n, fmt.Errorf("%w: %w", ErrNotSent, err))
			}
			break
		}
	}
	g.wake(ctx)
}

// noteArrival decides whether the next items are alone.
func (g *Gatherer[T]) noteArrival() {
	if !g.LoneAtOnce {
		return
	}
	now := clock.Mono(g.Clock)
	g.isLone = len(g.pending) == 0 && (g.last == 0 || now-g.last > g.Linger)
	g.last = max(now, 1)
}

func (g *Gatherer[T]) bytesOf(item T) int {
	if g.Bytes == nil {
		return 0
	}
	return g.Bytes(item)
}

func (g *Gatherer[T]) add(ctx context.Context, e entry[T]) error {
	for !g.closed && !g.fits(e.bytes) {
		if err := g.waitForRoom(ctx); err != nil {
			return fmt.Errorf("too many items are pending: %w", err)
		}
	}
	if g.closed {
		return ErrClosed
	}
	g.push(e)
	if g.isFull() {
		g.wake(ctx)
	}
	return nil
}

func (g *Gatherer[T]) push(e entry[T]) {
	g.pending = append(g.pending, e)
	g.bytes += e.bytes
}

func (g *Gatherer[T]) fits(size int) bool {
	return len(g.pending) == 0 || len(g.pending) < g.PendingMax && (g.PendingBytesMax == 0 || g.bytes+size <= g.PendingBytesMax)
}

// waitForRoom unlocks the gatherer while it waits.
func (g *Gatherer[T]) waitForRoom(ctx context.Context) error {
	if g.room == nil {
		g.room = make(chan struct{})
	}
	room := g.room
	g.wake(ctx)
	g.stopLinger() // no more items can come
	g.mu.Unlock()
	defer g.mu.Lock()
	select {
	case <-room:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g *Gatherer[T]) isFull() bool {
	return len(g.pending) >= g.ItemsMax || g.BytesMax > 0 && g.bytes >= g.BytesMax
}

// wake makes sure that a goroutine sends what is pending.
func (g *Gatherer[T]) wake(ctx context.Context) {
	switch {
	case len(g.pending) == 0:
	case g.lingering:
		if g.isFull() || g.closed || g.patience.on && len(g.pending) >= g.Enough {
			g.stopLinger()
		}
	case g.senders < g.SendsMax:
		g.senders++
		g.lingering = true
		g.enough = make(chan struct{})
		enough := g.enough
		if g.isFull() || g.closed || g.isLone {
			g.stopLinger()
		}
		go g.run(context.WithoutCancel(ctx), enough)
	}
}

// stopLinger makes the sender that waits for more items send.
func (g *Gatherer[T]) stopLinger() {
	if g.enough != nil {
		close(g.enough)
		g.enough = nil
	}
}

// run sends until nothing is pending, or another sender waits for more items.
func (g *Gatherer[T]) run(ctx context.Context, enough <-chan struct{}) {
	for {
		g.linger(enough)
		batch := g.take(ctx)
		if len(batch) > 0 {
			g.settle(batch, g.Send(ctx, itemsOf(batch)))
		}
		g.mu.Lock()
		if len(g.pending) == 0 || g.lingering {
			g.senders--
			if g.closed && g.senders == 0 {
				close(g.idle)
			}
			g.mu.Unlock()
			return
		}
		g.lingering = true
		g.enough = make(chan struct{})
		enough = g.enough
		g.stopLinger() // what is pending has waited for this send
		g.mu.Unlock()
	}
}

// take returns the next batch, and lets the next sender linger.
func (g *Gatherer[T]) take(ctx context.Context) []entry[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, size := 0, 0
	for n < min(len(g.pending), g.ItemsMax) {
		size += g.pending[n].bytes
		if n > 0 && g.BytesMax > 0 && size > g.BytesMax {
			size -= g.pending[n].bytes
			break
		}
		n++
	}
	batch := g.pending[:n:n]
	g.pending = g.pending[n:]
	g.bytes -= size
	g.lingering, g.enough = false, nil
	g.tellRoom()
	g.wake(ctx)
	return batch
}

func (g *Gatherer[T]) tellRoom() {
	if g.room != nil {
		close(g.room)
		g.room = nil
	}
}

func itemsOf[T any](batch []entry[T]) []T {
	items := make([]T, len(batch))
	for i := range batch {
		items[i] = batch[i].item
	}
	return items
}

func (g *Gatherer[T]) settle(batch []entry[T], results []error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range batch {
		c := batch[i].call
		switch {
		case c == nil:
		case i < len(results):
			c.settle(batch[i].at, results[i])
		default:
			c.settle(batch[i].at, fmt.Errorf("%w: no answer for item %d of %d", ErrUnderWay, i, len(batch)))
		}
	}
}

// takeBack ends a call whose caller leaves. Its pending items are never sent.
func (g *Gatherer[T]) takeBack(c *call, cause error) []error {
	g.mu.Lock()
	defer g.mu.Unlock()
	kept := make([]entry[T], 0, len(g.pending)) // run may still read the old array
	for _, e := range g.pending {
		if e.call != c {
			kept = append(kept, e)
			continue
		}
		g.bytes -= e.bytes
		c.settle(e.at, fmt.Errorf("%w: %w", ErrNotSent, cause))
	}
	g.pending = kept
	g.tellRoom()
	results := slices.Clone(c.results) // nobody reads results that come later
	for i := range results {
		if results[i] == errPending { //nolint:errorlint // it is this very value
			results[i] = fmt.Errorf("%w: %w", ErrUnderWay, cause)
		}
	}
	return results
}

// Close refuses new items and returns when all pending ones were sent, or with the cause of ctx when that
// ends first.
func (g *Gatherer[T]) Close(ctx context.Context) error {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		g.tellRoom()
		g.stopLinger()
		if g.senders == 0 { // then nothing is pending
			close(g.idle)
		}
	}
	g.mu.Unlock()
	select {
	case <-g.idle:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

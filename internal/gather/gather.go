// Package gather joins what concurrent callers have to send into few sends. A
// lone caller waits a moment for company; when all sends are under way, what
// comes meanwhile makes the next one larger, so that the harder it is used, the fewer
// sends an item costs. It owns the waiting and the bounds; what a send is and what is worth
// trying again is its user's. Its goroutines live while there is something to send.
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
	// ErrUnderWay says that the caller went while its item was being sent: it may arrive.
	ErrUnderWay = errors.New("being sent; it may arrive")
	// ErrClosed refuses items after Close.
	ErrClosed = errors.New("closed")
)

// Config is what a Gatherer is made of. Clock, Send, ItemsMax and SendsMax are required.
type Config[T any] struct {
	Clock clock.Clock
	// Send sends a batch and answers for each item; its context carries no deadline, so that it must set
	// bounds of its own.
	Send func(ctx context.Context, batch []T) []error
	// Bytes is the size of an item; nil: sizes do not count.
	Bytes func(item T) int

	ItemsMax int           // items of one send
	BytesMax int           // bytes of one send; a larger item goes alone; 0: no bound
	SendsMax int           // sends under way at a time
	Linger   time.Duration // how long an item waits for company at most while fewer are under way
	// Patience is how much longer it waits while that brings company, until there are Enough items. 0: not at
	// all.
	Patience time.Duration
	Enough   int

	PendingMax      int // items that wait; who has more waits for room. 0: PendingMaxDefault
	PendingBytesMax int // bytes in them; one item always fits; 0: no bound
}

// PendingMaxDefault is how many items wait at most.
const PendingMaxDefault = 10_000

// Gatherer sends. It is safe for concurrent use.
type Gatherer[T any] struct {
	Config[T]

	mu        sync.Mutex // guards all below; never held while sending
	pending   []entry[T]
	bytes     int           // of pending
	senders   int           // goroutines
	gathering bool          // one of them waits for company
	full      chan struct{} // closed when that one need not wait any longer
	room      chan struct{} // closed when pending became shorter; nil when nobody waits for it
	patience  patience
	closed    bool
	idle      chan struct{} // closed when closed and no sender is left
}

// entry is an item on its way.
type entry[T any] struct {
	item  T
	bytes int
	call  *call
	at    int // place in the call
}

// call is one call to Do, guarded by the gatherer's mu.
type call struct {
	results []error // errPending where there is no answer yet
	left    int     // items without an answer
	done    chan struct{}
}

// errPending never leaves the package.
var errPending = errors.New("pending")

// answer is called once for each item.
func (c *call) answer(at int, err error) {
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

// Do sends items and returns when there is an answer for each, in order, or when ctx ends: what waits then is
// taken back (ErrNotSent), what is being sent is ErrUnderWay. It blocks while too much waits.
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

// addAll makes items wait for a send, until ctx ends or the gatherer is closed.
func (g *Gatherer[T]) addAll(ctx context.Context, c *call, items []T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for n := range items {
		if err := g.add(ctx, entry[T]{items[n], g.bytesOf(items[n]), c, n}); err != nil {
			for ; n < len(items); n++ {
				c.answer(n, fmt.Errorf("%w: %w", ErrNotSent, err))
			}
			break
		}
	}
	g.wake(ctx)
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
			return fmt.Errorf("too much waits: %w", err)
		}
	}
	if g.closed {
		return ErrClosed
	}
	g.pending = append(g.pending, e)
	g.bytes += e.bytes
	if g.isFull() {
		g.wake(ctx)
	}
	return nil
}

func (g *Gatherer[T]) fits(size int) bool {
	return len(g.pending) == 0 || len(g.pending) < g.PendingMax && (g.PendingBytesMax == 0 || g.bytes+size <= g.PendingBytesMax)
}

// waitForRoom gives the lock up while it waits.
func (g *Gatherer[T]) waitForRoom(ctx context.Context) error {
	if g.room == nil {
		g.room = make(chan struct{})
	}
	room := g.room
	g.wake(ctx)
	g.hurry() // no more company can come
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

// wake sees to it that somebody sends what waits.
func (g *Gatherer[T]) wake(ctx context.Context) {
	switch {
	case len(g.pending) == 0:
	case g.gathering:
		if g.isFull() || g.closed || g.patience.on && len(g.pending) >= g.Enough {
			g.hurry()
		}
	case g.senders < g.SendsMax:
		g.senders++
		g.gathering = true
		g.full = make(chan struct{})
		full := g.full
		if g.isFull() || g.closed {
			g.hurry()
		}
		go g.run(context.WithoutCancel(ctx), full)
	}
}

// hurry ends the wait for company.
func (g *Gatherer[T]) hurry() {
	if g.full != nil {
		close(g.full)
		g.full = nil
	}
}

// run sends until nothing waits, or somebody else sees to what waits.
func (g *Gatherer[T]) run(ctx context.Context, full <-chan struct{}) {
	for {
		g.wait(full)
		batch := g.take(ctx)
		if len(batch) > 0 {
			g.settle(batch, g.Send(ctx, itemsOf(batch)))
		}
		g.mu.Lock()
		if len(g.pending) == 0 || g.gathering {
			g.senders--
			if g.closed && g.senders == 0 {
				close(g.idle)
			}
			g.mu.Unlock()
			return
		}
		g.gathering = true
		g.full = make(chan struct{})
		full = g.full
		g.hurry() // what waits has waited for this send
		g.mu.Unlock()
	}
}

// take returns the next batch, and lets the next sender gather.
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
	g.gathering, g.full = false, nil
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
		err := fmt.Errorf("%w: no answer for item %d of %d", ErrUnderWay, i, len(batch))
		if i < len(results) {
			err = results[i]
		}
		batch[i].call.answer(batch[i].at, err)
	}
}

// takeBack answers a call whose caller goes: what waits never goes under way.
func (g *Gatherer[T]) takeBack(c *call, cause error) []error {
	g.mu.Lock()
	defer g.mu.Unlock()
	kept := make([]entry[T], 0, len(g.pending)) // run may still read what it took of the old one
	for _, e := range g.pending {
		if e.call != c {
			kept = append(kept, e)
			continue
		}
		g.bytes -= e.bytes
		c.answer(e.at, fmt.Errorf("%w: %w", ErrNotSent, cause))
	}
	g.pending = kept
	g.tellRoom()
	results := slices.Clone(c.results) // answers that come later are for nobody
	for i := range results {
		if results[i] == errPending { //nolint:errorlint // it is this very value
			results[i] = fmt.Errorf("%w: %w", ErrUnderWay, cause)
		}
	}
	return results
}

// Close refuses new items and returns when all that waited were sent, or with the cause of ctx when that ends
// first.
func (g *Gatherer[T]) Close(ctx context.Context) error {
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		g.tellRoom()
		g.hurry()
		if g.senders == 0 { // then nothing waits
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

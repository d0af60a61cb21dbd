// Package mem is an inbound buffer in memory. It is for tests, since its messages are lost with the process.
package mem

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Defaults of Config.
const (
	VisibilityDefault   = 30 * time.Second
	WaitDefault         = 20 * time.Second
	BodyBytesMaxDefault = 1 << 20
)

// Config are the settings of a Buffer, as SQS has them. The zero value of every field means its default.
type Config struct {
	Visibility   time.Duration // how long a received message is hidden
	Wait         time.Duration // how long Receive waits
	BodyBytesMax int
}

// Buffer is a buffer.Buffer.
type Buffer struct {
	clock clock.Clock
	cfg   Config

	mu       sync.Mutex // guards all below
	messages []*message // in the order in which they were sent
	receipts uint64
	changed  chan struct{} // closed when a message may be visible earlier
	closed   bool
}

type message struct {
	body     string
	visible  task.Instant // hidden until then
	receives int
	receipt  string
}

var _ buffer.Buffer = (*Buffer)(nil)

// New returns an empty buffer.
func New(k clock.Clock, c Config) *Buffer {
	c.Visibility = cmp.Or(c.Visibility, VisibilityDefault)
	c.Wait = cmp.Or(c.Wait, WaitDefault)
	c.BodyBytesMax = cmp.Or(c.BodyBytesMax, BodyBytesMaxDefault)
	return &Buffer{clock: k, cfg: c, changed: make(chan struct{})}
}

// BodyBytesMax returns the bound of a body.
func (b *Buffer) BodyBytesMax() int { return b.cfg.BodyBytesMax }

// Len returns the number of messages, hidden ones included.
func (b *Buffer) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.messages)
}

// Depth counts the messages.
func (b *Buffer) Depth(context.Context) (visible, hidden int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock.Now()
	for _, m := range b.messages {
		if m.visible > now {
			hidden++
		} else {
			visible++
		}
	}
	return visible, hidden, nil
}

// Send adds messages.
func (b *Buffer) Send(_ context.Context, messages []buffer.Outgoing) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	results := make([]error, len(messages))
	for i, m := range messages {
		switch {
		case b.closed:
			results[i] = buffer.ErrClosed
		case len(m.Body) > b.cfg.BodyBytesMax:
			results[i] = fmt.Errorf("%w: %d bytes, at most %d are allowed", buffer.ErrTooLarge, len(m.Body), b.cfg.BodyBytesMax)
		case m.Delay < 0 || m.Delay > buffer.DelayMax:
			results[i] = fmt.Errorf("delay of %v: want 0s to %v", m.Delay, buffer.DelayMax)
		default:
			delay := (m.Delay + time.Second - 1).Truncate(time.Second)
			b.messages = append(b.messages, &message{body: m.Body, visible: clock.Steady(b.clock).Add(delay)})
		}
	}
	b.wakeAll()
	return results
}

// wakeAll makes all waiting receivers look again.
func (b *Buffer) wakeAll() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// Receive waits for visible messages.
func (b *Buffer) Receive(ctx context.Context, limit int) ([]buffer.Message, error) {
	end := b.clock.NewTimer(b.cfg.Wait)
	defer end.Stop()
	for {
		got, next, changed, err := b.receive(limit)
		if err != nil || len(got) > 0 {
			return got, err
		}
		visible := b.clock.NewTimer(next)
		select {
		case <-changed:
		case <-visible.C():
		case <-end.C():
			visible.Stop()
			return nil, nil
		case <-ctx.Done():
			visible.Stop()
			return nil, context.Cause(ctx)
		}
		visible.Stop()
	}
}

func (b *Buffer) receive(limit int) (got []buffer.Message, next time.Duration, changed <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, 0, nil, buffer.ErrClosed
	}
	now, next := clock.Steady(b.clock), b.cfg.Wait
	for _, m := range b.messages {
		switch {
		case m.visible > now:
			next = min(next, m.visible.Sub(now))
		case len(got) < min(limit, buffer.BatchMax):
			b.receipts++
			m.receives++
			m.receipt = strconv.FormatUint(b.receipts, 10)
			m.visible = now.Add(b.cfg.Visibility)
			got = append(got, buffer.Message{Body: m.body, Receives: m.receives, Receipt: m.receipt})
		}
	}
	return got, next, b.changed, nil
}

// Delete removes messages. It leaves one that was received again since, as SQS may.
func (b *Buffer) Delete(_ context.Context, messages []buffer.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages = slices.DeleteFunc(b.messages, func(m *message) bool { return received(messages, m) })
	return nil
}

// Retry hides messages for a time from now on.
func (b *Buffer) Retry(_ context.Context, messages []buffer.Message, after time.Duration) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if after < 0 || after > buffer.RetryMax {
		return fmt.Errorf("retry after %v: want 0s to %v", after, buffer.RetryMax)
	}
	for _, m := range b.messages {
		if received(messages, m) {
			m.visible = clock.Steady(b.clock).Add(after)
		}
	}
	b.wakeAll()
	return nil
}

func received(messages []buffer.Message, m *message) bool {
	return m.receipt != "" && slices.ContainsFunc(messages, func(r buffer.Message) bool { return r.Receipt == m.receipt })
}

// Close ends waiting Receives.
func (b *Buffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.wakeAll()
	return nil
}

package buffertest

import (
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

const (
	memoryVisibility   = 30 * time.Second
	memoryWait         = 20 * time.Second
	memoryBodyBytesMax = 1 << 20
)

// Memory is a buffer.Buffer in memory, with the settings of SQS. Its messages are lost with the process.
type Memory struct {
	Visibility time.Duration // how long a received message is hidden; 30 s
	BytesMax   int           // of a body; 1 MiB

	clock clock.Clock

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

var _ buffer.Buffer = (*Memory)(nil)

// NewMemory returns an empty buffer.
func NewMemory(k clock.Clock) *Memory {
	return &Memory{Visibility: memoryVisibility, BytesMax: memoryBodyBytesMax, clock: k, changed: make(chan struct{})}
}

// BodyBytesMax returns the bound of a body.
func (b *Memory) BodyBytesMax() int { return b.BytesMax }

// Len returns the number of messages, hidden ones included.
func (b *Memory) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.messages)
}

// Depth counts the messages.
func (b *Memory) Depth(context.Context) (visible, hidden int64, err error) {
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
func (b *Memory) Send(_ context.Context, messages []buffer.Outgoing) []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	results := make([]error, len(messages))
	for i, m := range messages {
		switch {
		case b.closed:
			results[i] = buffer.ErrClosed
		case len(m.Body) > b.BytesMax:
			results[i] = fmt.Errorf("%w: %d bytes, at most %d are allowed", buffer.ErrTooLarge, len(m.Body), b.BytesMax)
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
func (b *Memory) wakeAll() {
	close(b.changed)
	b.changed = make(chan struct{})
}

// Receive waits for visible messages.
func (b *Memory) Receive(ctx context.Context, limit int) ([]buffer.Message, error) {
	end := b.clock.NewTimer(memoryWait)
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

func (b *Memory) receive(limit int) (got []buffer.Message, next time.Duration, changed <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, 0, nil, buffer.ErrClosed
	}
	now, next := clock.Steady(b.clock), memoryWait
	for _, m := range b.messages {
		switch {
		case m.visible > now:
			next = min(next, m.visible.Sub(now))
		case len(got) < min(limit, buffer.BatchMax):
			b.receipts++
			m.receives++
			m.receipt = strconv.FormatUint(b.receipts, 10)
			m.visible = now.Add(b.Visibility)
			got = append(got, buffer.Message{Body: m.body, Receives: m.receives, Receipt: m.receipt})
		}
	}
	return got, next, b.changed, nil
}

// Delete removes messages. It leaves one that was received again since, as SQS may.
func (b *Memory) Delete(_ context.Context, messages []buffer.Message) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.messages = slices.DeleteFunc(b.messages, func(m *message) bool { return received(messages, m) })
	return nil
}

// Retry hides messages for a time from now on.
func (b *Memory) Retry(_ context.Context, messages []buffer.Message, after time.Duration) error {
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
func (b *Memory) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.wakeAll()
	return nil
}

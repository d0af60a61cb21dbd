package inbound_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
)

// visible returns what another process would receive now.
func (b *buffered) visible() (got []buffer.Message) {
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		got, _ = b.memory.Receive(ctx, buffer.BatchMax)
	}()
	synctest.Wait()
	cancel()
	<-done
	return got
}

// A store may take longer over a message than the buffer hides it.
func TestAMessageIsHeldForAsLongAsTheStoreTakes(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		const takes = 100 * time.Second
		b.put(b.q1(time.Hour, nil))
		applies := 0
		b.rows.set(func(ops []store.Op) {
			if len(ops) > 0 {
				applies++
				_ = clock.Sleep(b.ctx, b.clock, takes)
			}
		}, nil, nil)
		b.consume()
		for range takes / (10 * time.Second) {
			b.advance(9999 * time.Millisecond)
			if got := b.visible(); len(got) != 0 {
				t.Errorf("others receive %v", got)
			}
		}
		b.advance(3 * time.Second) // the message waits for others to be deleted with
		b.rows.set(nil, nil, nil)
		b.set(func() {
			if b.consumed != 1 || applies != 1 || b.memory.Len() != 0 {
				t.Errorf("%d consumed, %d writes, %d messages left", b.consumed, applies, b.memory.Len())
			}
		})
		b.halt()
	})
}

// A message that cannot be handled is not hidden from other processes for ever.
func TestAMessageIsNotHeldForEver(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		b.put(b.q1(time.Hour, nil))
		hung := make(chan struct{})
		b.rows.set(func([]store.Op) { <-hung }, nil, nil)
		b.consume()
		b.advance(10 * time.Minute)
		if got := b.visible(); len(got) != 0 {
			t.Errorf("others receive %v", got)
		}
		b.advance(time.Minute)
		if got := b.visible(); len(got) != 1 {
			t.Errorf("others receive %v", got)
		}
		b.rows.set(nil, nil, nil)
		close(hung)
		b.halt()
	})
}

package inbound_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/queue/queuetest"
	"github.com/kinesin-io/kinesin/task"
)

// trickle puts n messages of one task each into the buffer, with pauses, and returns the longest time that
// one was there.
func (b *buffered) trickle(n int, apart, due time.Duration) (most time.Duration) {
	b.t.Helper()
	const look = 10 * time.Millisecond
	since := map[string]task.Instant{}
	for left := n * int(apart/look); left > 0; left-- {
		if left%int(apart/look) == 0 {
			one := b.q1(due, nil)
			since[one.Id] = b.clock.Now()
			b.put(one)
		}
		b.advance(look)
		for id, at := range since {
			if b.state(id) != "accepted" {
				most = max(most, b.clock.Now().Sub(at))
				delete(since, id)
			}
		}
	}
	return most
}

// Tasks that come slowly and have time share receives and deletes.
func TestFewRequestsForWhatHasTime(t *testing.T) {
	for apart, limit := range map[time.Duration]int{20 * time.Millisecond: 280, 100 * time.Millisecond: 320} {
		runBuffered(t, nil, func(b *buffered) {
			b.consume()
			most := b.trickle(1000, apart, time.Minute)
			b.halt()
			t.Logf("a message every %v: %d receives, %d deletes, in the buffer for %v at most", apart, b.receives, b.deletes, most)
			if b.receives+b.deletes > limit || most > 520*time.Millisecond {
				t.Error("too many, or too long")
			}
			if b.memory.Len() != 0 || len(b.waitingRows()) != 1000 {
				t.Errorf("%d messages left, %d rows", b.memory.Len(), len(b.waitingRows()))
			}
		})
	}
}

// A client that sends tasks to the buffer which are due at once waits for the pause once at most.
func TestWhatIsDueSoonDoesNotWaitForCompany(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		b.consume()
		if most := b.trickle(1, time.Second, time.Minute); most > 10*time.Millisecond {
			t.Errorf("alone: %v", most)
		}
		b.trickle(1, time.Second, 0)
		if most := b.trickle(100, 100*time.Millisecond, 0); most > 30*time.Millisecond {
			t.Errorf("due at once: %v", most)
		}
	})
	runBuffered(t, func(c *settings) { c.Near = 500 * time.Millisecond }, func(b *buffered) {
		b.consume()
		if most := b.trickle(100, 100*time.Millisecond, 3*time.Second); most > 60*time.Millisecond {
			t.Errorf("where few tasks count as near: %v", most)
		}
	})
}

// A buffer that never brings as many as it was asked for is emptied without pauses all the same.
func TestABacklogIsTakenWithoutPauses(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		b.set(func() { b.most = 7 })
		for range 3000 {
			b.put(b.q1(time.Hour, nil))
		}
		b.consume()
		b.advance(15 * time.Second)
		b.set(func() {
			if b.consumed != 3000 {
				t.Errorf("%d of 3000 after 15 s", b.consumed)
			}
		})
	})
}

// A process that dies before it has deleted its messages leaves none that would run twice.
func TestWhichMessagesWaitToBeDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		due     time.Duration
		deliver bool
		waits   bool
	}{
		"managed":                        {due: time.Minute, waits: true},
		"deliver, straight to its queue": {due: time.Minute, deliver: true},
		"deliver, sent before long":      {due: 15*time.Minute + 30*time.Second, deliver: true},
		"deliver, much later":            {due: time.Hour, deliver: true, waits: true},
	} {
		test := func(b *buffered) {
			name := "mail"
			if c.deliver {
				name = "invoices"
			}
			b.put(b.q1(c.due, func(task *kinesinv1.BufferedTask, token *task.InboundToken) {
				task.Item.Lambda, token.Lambda = name, name
			}))
			b.consume()
			b.advance(0)
			b.set(func() {
				if b.consumed != 1 || b.deletes == 0 != c.waits {
					t.Errorf("%d consumed, %d deletes", b.consumed, b.deletes)
				}
			})
			b.halt() // it does not wait any longer
			if b.memory.Len() != 0 {
				t.Errorf("%d messages left", b.memory.Len())
			}
		}
		t.Run(name, func(t *testing.T) {
			if c.deliver {
				runBufferedOutgoing(t, func(b *buffered, _ *queuetest.Delivering) { test(b) })
				return
			}
			runBuffered(t, nil, test)
		})
	}
}

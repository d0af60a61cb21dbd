package inbound_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

func TestAKeyIsOfItsLambda(t *testing.T) {
	run(t, func(f *fixture) {
		if err := f.createOf("push", "normal"); err != nil {
			t.Fatal(err)
		}
		mine, theirs := keyed(time.Hour), with(keyed(time.Hour), func(i *item) { i.Lambda = "push" })
		results := f.schedule(mine, theirs)
		if results[0].Problem != nil || results[1].Problem != nil || results[1].Duplicate || results[0].Id == results[1].Id {
			t.Errorf("%v: want a task of each lambda", results)
		}
	})
}

// A message of several tasks of which the store takes one is split; when the rest cannot be sent, the message
// stays.
func TestASplitMessageWhoseRestCannotBeSentComesAgain(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		left := true
		b.driver.FailMatching(func(op *store.Op) bool {
			return op.Kind == store.PutWakeup && op.Task.Due > b.clock.Now().Add(90*time.Minute) && left
		}, 1, 1_000_000, storetest.NotApplied)
		one, other := b.q1(time.Hour, nil), b.q1(2*time.Hour, nil)
		b.put(one, other)
		b.set(func() { b.noSends = errors.New("access denied") })
		b.drain(time.Minute)
		if b.state(one.Id) != "scheduled" || b.memory.Len() != 1 {
			t.Fatalf("%s, %d messages: want that the message stays", b.state(one.Id), b.memory.Len())
		}
		left = false
		b.drain(10 * time.Minute)
		if b.state(other.Id) != "scheduled" || b.memory.Len() != 0 {
			t.Errorf("%s, %d messages", b.state(other.Id), b.memory.Len())
		}
	})
}

func TestATaskThatCannotBeSetAsideStaysInTheBuffer(t *testing.T) {
	runBuffered(t, func(c *settings) { c.Rejecting.Max = 1 }, func(b *buffered) {
		tooLarge := func(t *kinesinv1.BufferedTask, _ *task.InboundToken) { t.Item.Payload = make([]byte, payload+1) }
		b.put(b.q1(time.Hour, tooLarge))
		b.put(b.q1(time.Hour, tooLarge))
		b.drain(time.Minute)
		if len(b.rejected()) != 1 || b.memory.Len() != 1 {
			t.Errorf("%d set aside, %d messages: want one of each", len(b.rejected()), b.memory.Len())
		}
	})
}

func TestABufferThatSaysNothingAcceptsNothing(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		b.set(func() { b.silent = true })
		b.during(inbound.BufferLingerDefault, func() {
			if r := b.schedule(in(time.Minute)); r[0].Problem != nil {
				t.Errorf("refused: %v", r[0].Problem)
			}
		})
		if len(b.waitingRows()) != 1 || b.ways["fallback"] != 1 {
			t.Errorf("%d wake-up rows, %v: want that the store takes it", len(b.waitingRows()), b.ways)
		}
	})
}

// A row that could not be read is not one that is not there: the task was cancelled while it was in the
// buffer.
func TestAFailedLookDoesNotBringACancelledTaskBack(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		id := b.accepted(in(time.Minute))[0]
		if r, err := b.Cancel(b.ctx, &kinesinv1.CancelRequest{Ids: []string{id}}); err != nil || r.Results[0].Problem != nil {
			t.Fatal(r, err)
		}
		b.rows.mu.Lock()
		b.rows.failTasks = 1
		b.rows.mu.Unlock()
		b.drain(10 * time.Minute)
		if rows := b.waitingRows(); len(rows) != 0 || b.state(id) != "cancelled" || b.memory.Len() != 0 {
			t.Errorf("%s, wake-up rows %+v, %d messages", b.state(id), rows, b.memory.Len())
		}
	})
}

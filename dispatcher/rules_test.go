package dispatcher

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// TestSharedStateIsLocked is for the race detector: what stands behind one lock is used by goroutines that
// nothing else orders.
func TestSharedStateIsLocked(_ *testing.T) {
	d := NewStarter(StarterConfig{Clock: clock.Real()})
	d.depths.of[queue.Name{}] = cachedDepth{}
	var running sync.WaitGroup
	for _, use := range []func(){
		func() { d.depths.countSent([]queue.Message{{}}, []error{nil}) },
		func() { d.depths.get(queue.Name{}) },
	} {
		for range 2 {
			running.Go(func() {
				for range 50 {
					use()
				}
			})
		}
	}
	running.Wait()
}

// TestNothingLeavesEarly takes from an outbox at the instant of one task: the next one, a microsecond later,
// stays.
func TestNothingLeavesEarly(t *testing.T) {
	o := &outbox{changed: make(chan struct{}, 1)}
	for due := range task.Instant(3) {
		o.add(&delivery{order: task.Order{Task: task.Task{Due: 1000 + due}}})
	}
	if due := o.take(1001); len(due) != 2 || len(o.deliveries) != 1 {
		t.Errorf("%d leave, %d stay; want 2 and 1", len(due), len(o.deliveries))
	}
}

// refusing is a queue that refuses some messages once.
type refusing struct {
	Queue

	refuse map[task.ID]bool
	sent   map[task.ID]int
}

func (r *refusing) Send(_ context.Context, messages []queue.Message) []error {
	results := make([]error, len(messages))
	for i := range messages {
		id := messages[i].Task.ID
		if r.refuse[id] {
			delete(r.refuse, id)
			results[i] = queue.ErrUnreachable
			continue
		}
		r.sent[id]++
	}
	return results
}

// TestOnlyWhatFailedIsSentAgain has the queue refuse the first and the last of three messages.
func TestOnlyWhatFailedIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := &refusing{refuse: map[task.ID]bool{{1}: true, {3}: true}, sent: map[task.ID]int{}}
		d := New(Config{Starter: NewStarter(StarterConfig{Clock: clock.Real(), Queue: q})})
		d.Send(t.Context(), []task.Task{{ID: task.ID{1}}, {ID: task.ID{2}}, {ID: task.ID{3}}})
		for n := byte(1); n <= 3; n++ {
			if got := q.sent[task.ID{n}]; got != 1 {
				t.Errorf("message %d was sent %d times", n, got)
			}
		}
	})
}

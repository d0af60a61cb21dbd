package sqs

import (
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// TestSharedStateIsLocked is for the race detector: goroutines without any other order use what a lock
// guards.
func TestSharedStateIsLocked(_ *testing.T) {
	p := newPrefetch(0)
	var running sync.WaitGroup
	for _, use := range []func(){
		func() { p.add(&heldMessage{id: "m"}, []task.Task{{Due: 1}}, false, 0) },
		func() { p.depth(queue.Name{}, 5) },
		func() { p.wanted(laneKey{}) },
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

// TestAHoldIsRoundedUp counts the seconds for which SQS hides a message that is released with a delay.
func TestAHoldIsRoundedUp(t *testing.T) {
	const now = task.Instant(1_700_000_000_000_000)
	for _, c := range []struct {
		after time.Duration
		want  int32
	}{{0, 0}, {time.Millisecond, 1}, {time.Second, 1}, {1500 * time.Millisecond, 2}} {
		o := outgoing{due: now, after: c.after}
		if got := o.delaySeconds(now); got != c.want {
			t.Errorf("hold of %v: %d s, want %d", c.after, got, c.want)
		}
	}
}

// TestTheNewestDeliveryCounts delivers a message again that is held: SQS takes only its new handle then.
func TestTheNewestDeliveryCounts(t *testing.T) {
	p := newPrefetch(0)
	m := &heldMessage{id: "m", handle: "old"}
	p.add(m, []task.Task{{Due: 1}}, false, 0)
	if !p.redelivered("m", "new", 99) || m.handle != "new" || m.renewAt != 99 {
		t.Errorf("handle %q, to renew at %d", m.handle, m.renewAt)
	}
}

package scheduler_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/task"
)

// stoppable is the clock of a process that can be stopped: the time in which it is goes by between two
// readings.
type stoppable struct {
	clock.Clock

	stopped atomic.Int64
}

func (c *stoppable) Now() task.Instant { return c.Clock.Now().Add(time.Duration(c.stopped.Load())) }

// A server that was stopped for longer than a lease has heard of no heartbeat. Workers have three of them to
// be heard of again; one that is not is lost then.
func TestAServerThatStoodStillBlamesNoWorker(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		still := &stoppable{Clock: w.clock}
		w.wall = still
		l := w.openLease(15 * time.Second)
		running := w.running(high, l.Worker)
		w.start()
		w.advance(2 * time.Second)
		still.stopped.Add(int64(20 * time.Second))
		grace := 3 * 15 * time.Second / lease.BeatsPerLease
		w.advance(grace - 2*time.Second)
		if row := w.read(running.ID); row.State != task.Processing && row.State != task.Claimed {
			t.Fatalf("the task is %s, %v after the server went on", row.State, grace-2*time.Second)
		}
		w.advance(4 * time.Second)
		if row := w.read(running.ID); row.Lost != 1 {
			t.Errorf("the task is %s, its worker was never heard of again", row.State)
		}
	})
}

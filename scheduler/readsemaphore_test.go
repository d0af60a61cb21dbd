package scheduler_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// readsMax is how many partitions are read at once.
const readsMax = 64

// lasting is a queue whose messages outlive the process, so that none have to be sent again at the start.
type lasting struct{ *queue.Queue }

func (lasting) Durable() bool { return true }

// A lambda comes with many partitions while the store answers nothing: few are read at once, and what is due
// is fired in all others. Then all are read.
func TestManyPartitionsTakeTurnsToRead(t *testing.T) {
	inWorld(t, 1<<13, func(w *world) {
		w.loops = 1000 // so that all partitions have one
		var all []task.Partition
		for shard := range uint16(300) {
			all = append(all, task.Partition{Lambda: 7, Shard: shard})
		}
		var tasks []task.Task
		for _, p := range all {
			tasks = append(tasks, w.waiting(p, 0)) // nobody is told of these
		}
		var under atomic.Int64
		var tooMany atomic.Bool
		gate := make(chan struct{})
		w.rows.slow = func() {
			if under.Add(1) > readsMax {
				tooMany.Store(true)
			}
			<-gate
			under.Add(-1)
		}
		w.parts.all, w.depths = all, lasting{w.queue}
		s := w.start()
		for _, p := range all {
			one := w.waiting(p, 0)
			tasks = append(tasks, one)
			s.Added(&one)
		}
		synctest.Wait()
		if n := under.Load(); n != readsMax {
			t.Errorf("%d partitions are being read, want %d", n, readsMax)
		}
		if n := len(w.sent.fired()); n != len(all)-readsMax {
			t.Errorf("%d tasks were fired, want those of the %d partitions that wait", n, len(all)-readsMax)
		}
		if stalled := s.Stalled(); stalled != 0 {
			t.Errorf("stalled for %v", stalled)
		}
		close(gate)
		synctest.Wait()
		w.wantOnTime(tasks...)
		if tooMany.Load() {
			t.Errorf("more than %d partitions were read at once", readsMax)
		}
		for _, p := range all {
			if w.rows.scansOf(p) != 2 {
				t.Fatalf("partition %s was read %d times, want a read-ahead and a full scan", p, w.rows.scansOf(p))
			}
		}
		w.advance(time.Minute)
		for _, p := range all {
			if n := w.rows.scansOf(p); n < 13 || n > 15 {
				t.Fatalf("partition %s was read %d times in a minute, want once every 5 s after the full scan", p, n)
			}
		}
	})
}

// Reads that fail, however many, leave the others their turns.
func TestPartitionsThatFailHoldUpNoOthers(t *testing.T) {
	inWorld(t, 1<<13, func(w *world) {
		w.loops = 1000 // so that all partitions have one
		w.parts.all = nil
		for shard := range uint16(300) {
			w.parts.all = append(w.parts.all, task.Partition{Lambda: 7, Shard: shard})
		}
		w.rows.setFails(func(p task.Partition) error {
			if p.Shard < 250 {
				return errors.New("away")
			}
			return nil
		})
		w.start()
		w.advance(time.Minute)
		for _, p := range w.parts.all[250:] {
			if n := w.rows.scansOf(p); n < 12 {
				t.Fatalf("partition %s was read %d times in a minute, want once every 5 s", p, n)
			}
		}
		w.rows.setFails(nil)
		w.advance(10 * time.Second)
		before := make(map[task.Partition]int)
		for _, p := range w.parts.all {
			before[p] = w.rows.scansOf(p)
		}
		w.advance(10 * time.Second)
		for _, p := range w.parts.all {
			if n := w.rows.scansOf(p) - before[p]; n < 1 || n > 3 {
				t.Fatalf("partition %s was read %d times in 10 s", p, n)
			}
		}
	})
}

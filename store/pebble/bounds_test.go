package pebble

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

func openInMemory(t *testing.T) *Driver {
	t.Helper()
	d, err := Open("data", Config{FS: vfs.NewMem(), MemTableBytes: memTableBytesMin})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// TestQueuedBytesAreBounded has no room left for what waits for the committer.
func TestQueuedBytesAreBounded(t *testing.T) {
	d := openInMemory(t)
	if err := d.queued.Acquire(t.Context(), queuedBytesMax); err != nil {
		t.Fatal(err)
	}
	var released, done atomic.Bool
	var running sync.WaitGroup
	running.Go(func() {
		defer done.Store(true)
		put := store.Op{Kind: store.PutPayload, Task: task.Task{ID: task.ID{1}}, Payload: make([]byte, 100)}
		if results, err := d.Apply(t.Context(), []store.Op{put}); err != nil || results[0] != nil || !released.Load() {
			t.Errorf("%v, %v, released %v: want that the request waits for room", results, err, released.Load())
		}
	})
	for !done.Load() && d.queued.TryAcquire(0) { // which fails once somebody waits
		runtime.Gosched()
	}
	released.Store(true)
	d.queued.Release(queuedBytesMax)
	running.Wait()
}

// TestASweepLeavesWhatHasChanged sweeps tasks as they were listed: one lives again since, and one ended anew.
func TestASweepLeavesWhatHasChanged(t *testing.T) {
	d := openInMemory(t)
	ended := func(n byte, expire task.Instant) task.Task {
		return task.Task{ID: task.ID{n}, State: task.Success, Seq: 1, Ended: 5, ExpireAt: expire, WakeRow: task.WakeRow{At: 1, Seq: 1}}
	}
	r := d.newRequest(0)
	for n := byte(1); n <= 3; n++ {
		one := ended(n, 100)
		if results, err := d.Apply(t.Context(), []store.Op{{Kind: store.PutTask, Task: one}}); err != nil || results[0] != nil {
			t.Fatal(results, err)
		}
		r.addSweep(position{at: 100, id: one.ID})
	}
	live, anew := ended(1, 100), ended(2, 900)
	live.State, live.Seq, live.Wake, live.Ended, live.ExpireAt = task.Enqueued, 2, 50, 0, 0
	anew.Seq = 2
	if results, err := d.Apply(t.Context(), []store.Op{{Kind: store.ReplaceTask, Task: live}, {Kind: store.ReplaceTask, Task: anew}}); err != nil || errors.Join(results...) != nil {
		t.Fatal(results, err)
	}
	r.results = make([]error, len(r.rows))
	results, err := d.submit(t.Context(), r)
	if err != nil || !errors.Is(results[0], store.ErrConflict) || !errors.Is(results[1], store.ErrConflict) || results[2] != nil {
		t.Errorf("%v, %v: want that only the last is swept", results, err)
	}
	rows, err := d.Tasks(t.Context(), []task.ID{{1}, {2}, {3}})
	if err != nil || rows[0].ID.IsZero() || rows[1].ID.IsZero() || !rows[2].ID.IsZero() {
		t.Errorf("%+v, %v", rows, err)
	}
}

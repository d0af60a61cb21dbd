package dynamo_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakedynamo"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/task"
)

const epoch = task.Instant(1_800_000_000_000_000)

var (
	hot  = task.Partition{Lambda: 1}
	cold = task.Partition{Lambda: 2}
)

// wakeupRow returns an op that puts wake-up row n of a partition, with its task.
func wakeupRow(n int, p task.Partition, payload int) store.Op {
	t := task.Task{
		Partition: p, State: task.Scheduled, Seq: 1, Due: epoch + task.Instant(n), Created: epoch, Wake: epoch + task.Instant(n),
		WakeRow: task.WakeRow{At: epoch + task.Instant(n), Seq: 1},
		Payload: bytes.Repeat([]byte{'x'}, payload), PayloadSize: uint32(payload),
	}
	binary.BigEndian.PutUint64(t.ID[:], 0x0190_0000_0000_7000)
	binary.BigEndian.PutUint64(t.ID[8:], 1<<63|uint64(p.Lambda)<<32|uint64(n))
	return store.Op{Kind: store.PutWakeup, Task: t}
}

func taskRow(n int, p task.Partition, wake task.Instant) store.Op {
	op := wakeupRow(n, p, 0)
	op.Kind, op.Task.Wake = store.PutTask, wake
	return op
}

// bubble is a driver in virtual time, in a synctest bubble.
type bubble struct {
	*testing.T
	*onFake

	v        *clock.Virtual
	requests *atomic.Int64
}

func inBubble(t *testing.T, f fakedynamo.Config, test func(*bubble)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		v := clock.NewVirtual(epoch, 1)
		v.Settle(synctest.Wait)
		f.Clock = v.Process(0)
		b := &bubble{T: t, v: v, requests: &atomic.Int64{}}
		b.onFake = openFake(t, f, dynamo.Config{Clock: v.Process(0), Observer: dynamo.Observer{
			Request: func(string, int, time.Duration, error) { b.requests.Add(1) },
		}})
		t.Cleanup(func() { _ = b.Close() })
		test(b)
	})
}

// begin applies writes and returns at once; the channel says when and how they ended.
func (b *bubble) begin(ops ...store.Op) <-chan error {
	done := make(chan error, 1)
	go func() {
		results, err := b.Apply(b.Context(), ops)
		done <- errors.Join(append(results, err)...)
	}()
	synctest.Wait()
	return done
}

// apply applies writes that must succeed, and lets time pass until they have.
func (b *bubble) apply(ops ...store.Op) {
	b.Helper()
	done := b.begin(ops...)
	for range 1000 {
		select {
		case err := <-done:
			if err != nil {
				b.Fatal(err)
			}
			return
		default:
			b.v.Advance(10 * time.Millisecond)
			synctest.Wait()
		}
	}
	b.Fatal("still writing after 10 s")
}

func isDone(done <-chan error) bool {
	synctest.Wait()
	return len(done) > 0
}

// TestHotPartitionDelaysNoOther fills one partition beyond its rate, in batches that others share.
func TestHotPartitionDelaysNoOther(t *testing.T) {
	t.Parallel()
	inBubble(t, fakedynamo.Config{WriteUnits: 50}, func(b *bubble) {
		var many []store.Op
		for n := range 400 {
			many = append(many, wakeupRow(n, hot, 10))
		}
		crowd := b.begin(many...)
		if isDone(crowd) {
			b.Fatal("400 writes at 50 a second took no time")
		}
		for n := range 20 {
			if other := b.begin(wakeupRow(n, cold, 10)); !isDone(other) {
				b.Fatalf("write %d of another partition waits for the hot one", n)
			} else if err := <-other; err != nil {
				b.Fatal(err)
			}
		}
		took := 0
		for ; !isDone(crowd) && took < 600; took++ {
			b.v.Advance(100 * time.Millisecond)
		}
		if err := <-crowd; err != nil || took < 50 || took > 150 {
			b.Errorf("400 writes at 50 a second took %d00 ms: %v", took, err)
		}
	})
}

// TestFullThrottleIsNoStorm throttles every request for longer than the driver tries.
func TestFullThrottleIsNoStorm(t *testing.T) {
	t.Parallel()
	inBubble(t, fakedynamo.Config{}, func(b *bubble) {
		b.db.Faults.Odds(awsfake.Any, awsfake.Throttled, 1)
		var all []<-chan error
		const calls = 50
		for n := range calls {
			all = append(all, b.begin(wakeupRow(n, hot, 10)))
		}
		b.requests.Store(0)
		for range 200 {
			b.v.Advance(100 * time.Millisecond)
		}
		for n, done := range all {
			if !isDone(done) {
				b.Fatalf("write %d is still tried after 20 s", n)
			}
			if err := <-done; !errors.Is(err, store.ErrThrottled) || errors.Is(err, store.ErrUnknown) {
				b.Fatalf("write %d: %v, want throttled", n, err)
			}
		}
		if n := b.requests.Load(); n > 20*calls {
			b.Errorf("%d requests for %d writes in 20 s of full throttle", n, calls)
		}
		b.db.Faults.Off()
		b.apply(wakeupRow(99, hot, 10))
	})
}

// TestPagesEndAtAMegabyte scans more than one page and reads more than one batch.
func TestPagesEndAtAMegabyte(t *testing.T) {
	t.Parallel()
	inBubble(t, fakedynamo.Config{WriteUnits: -1, ReadUnits: -1}, func(b *bubble) {
		const rows, each = 250, 100 << 10
		var keys []store.WakeKey
		for n := range rows {
			op := wakeupRow(n, hot, each)
			b.apply(op)
			keys = append(keys, store.KeyOf(&op.Task))
		}
		got, err := b.ScanSchedule(b.Context(), hot, store.WakeKey{}, epoch.Add(time.Hour), rows)
		if err != nil || len(got) != rows || got[rows-1].Due != epoch+rows-1 {
			b.Errorf("scanned %d rows of %d: %v", len(got), rows, err)
		}
		if pages := b.requests.Load() - rows; pages < rows*each/(1<<20+each) {
			b.Errorf("%d MB in %d pages: they are to end at one", rows*each>>20, pages)
		}
		found, err := b.Wakeups(b.Context(), keys)
		if err != nil || len(found) != rows {
			b.Fatalf("read %d rows of %d: %v", len(found), rows, err)
		}
		for n := range found {
			if found[n].ID != keys[n].ID || len(found[n].Payload) != each {
				b.Fatalf("row %d is %s", n, found[n].ID)
			}
		}
	})
}

// TestLaggingIndex changes rows whose old entries are still in the index of dead letters.
func TestLaggingIndex(t *testing.T) {
	t.Parallel()
	inBubble(t, fakedynamo.Config{IndexLag: 10 * time.Second, BaseLag: 10 * time.Second}, func(b *bubble) {
		first, second := taskRow(1, hot, 0), taskRow(2, hot, 0)
		for i, op := range []*store.Op{&first, &second} {
			op.Task.State, op.Task.Ended, op.Task.ExpireAt = task.Dead, epoch+task.Instant(i), epoch.Add(24*time.Hour)
		}
		b.apply(first, second)
		dead := func(p *task.Partition) (ids []task.ID) {
			b.Helper()
			rows, _, err := b.ScanEnded(b.Context(), p, task.Dead, nil, 10)
			if err != nil {
				b.Fatal(err)
			}
			for i := range rows {
				if rows[i].Seq != 1 {
					b.Errorf("task %s at seq %d, which has moved on", rows[i].ID, rows[i].Seq)
				}
				ids = append(ids, rows[i].ID)
			}
			return ids
		}
		b.v.Advance(10 * time.Second)
		if got := dead(&hot); len(got) != 2 || !slices.Contains(got, first.Task.ID) {
			b.Fatalf("after the lag: %v", got)
		}
		redriven := step(first.Task, task.Enqueued, epoch.Add(time.Second))
		redriven.Ended, redriven.ExpireAt = 0, 0
		b.apply(store.Op{Kind: store.ReplaceTask, Task: redriven})
		for _, p := range []*task.Partition{&hot, nil} {
			if got := dead(p); len(got) != 1 || got[0] != second.Task.ID {
				b.Errorf("with an entry of a task that was redriven: %v", got)
			}
		}
		if rows, err := b.Tasks(b.Context(), []task.ID{redriven.ID}); err != nil || rows[0].State != task.Enqueued {
			b.Errorf("read %+v, %v; want the row as it is now", rows, err)
		}
	})
}

// TestLostDelete loses the answer to a deletion, which must not count as refused.
func TestLostDelete(t *testing.T) {
	t.Parallel()
	for _, fault := range []awsfake.Fault{awsfake.LostAnswer, awsfake.BrokenAfter, awsfake.LostRequest, awsfake.Refused} {
		inBubble(t, fakedynamo.Config{}, func(b *bubble) {
			op := wakeupRow(1, hot, 10)
			b.apply(op)
			op.Kind = store.DeleteWakeup
			b.db.Faults.Next("DeleteItem", fault, 1)
			if err := <-b.begin(op); !errors.Is(err, store.ErrUnknown) || errors.Is(err, store.ErrConflict) {
				b.Errorf("%s: %v, want unknown", fault, err)
			}
			if b.db.Faults.Fired(fault) != 1 {
				b.Errorf("%s did not strike", fault)
			}
		})
	}
}

package pebble_test

import (
	"encoding/binary"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// The benchmarks run on a real directory with real syncs, and report per task, whatever the batch.

const benchBatch = 1000

// openBench opens a store, and reports the CPU time of the whole process per task, which
// depends less on what else the machine does than the time does.
func openBench(b *testing.B) *store.Store {
	b.Helper()
	before := cpuTime(b)
	b.Cleanup(func() { b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op") })
	d, err := pebble.Open(b.TempDir(), pebble.Config{})
	if err != nil {
		b.Fatal(err)
	}
	s := store.New(d, store.Config{})
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// benchTask is task n of a backlog: 200 bytes of payload, due at spread-out milliseconds.
func benchTask(n int, payload []byte) task.Task {
	t := task.Task{
		Partition:   task.Partition{Lambda: 7, Priority: 1},
		State:       task.Scheduled,
		Seq:         1,
		Created:     1_700_000_000_000_000,
		Collection:  "bench",
		Payload:     payload,
		PayloadSize: uint32(len(payload)),
	}
	mixed := uint64(n) * 0x9e3779b97f4a7c15
	t.Due = task.FromMillis(1_800_000_000_000 + int64(mixed>>44))
	t.Wake = t.Due
	binary.BigEndian.PutUint64(t.ID[:], uint64(1_800_000_000_000+n/100)<<16|0x7000|mixed>>52) // a UUIDv7, 100 of them in a millisecond
	binary.BigEndian.PutUint64(t.ID[8:], mixed*0xd6e8feb86659fd93|1<<63)
	return t
}

func mustApply(b *testing.B, s *store.Store, ops []store.Op) {
	b.Helper()
	results, err := s.Apply(b.Context(), ops)
	if err != nil {
		b.Fatal(err)
	}
	for i, err := range results {
		if err != nil {
			b.Fatalf("op %d: %v", i, err)
		}
	}
}

// insert puts n waiting rows in batches and calls done between them.
func insert(b *testing.B, s *store.Store, first, n int) {
	b.Helper()
	payload := make([]byte, 200)
	ops := make([]store.Op, 0, benchBatch)
	for i := range n {
		ops = append(ops, store.Op{Kind: store.PutWaiting, Task: benchTask(first+i, payload), New: true})
		if len(ops) == benchBatch || i == n-1 {
			mustApply(b, s, ops)
			ops = ops[:0]
		}
	}
}

func BenchmarkInsert(b *testing.B) {
	s := openBench(b)
	b.ReportAllocs()
	b.ResetTimer()
	insert(b, s, 0, b.N)
}

func BenchmarkInsertConcurrent(b *testing.B) {
	s := openBench(b)
	const callers = 8
	b.ResetTimer()
	done := make(chan struct{})
	for c := range callers {
		go func() {
			defer func() { done <- struct{}{} }()
			insert(b, s, c*b.N, (b.N+callers-1)/callers)
		}()
	}
	for range callers {
		<-done
	}
}

// BenchmarkLife is the five writes of a managed task: put, dispatch, delete the waiting row, claim, end.
func BenchmarkLife(b *testing.B) {
	s := openBench(b)
	payload := make([]byte, 200)
	now := task.InstantOf(time.Unix(1_800_000_000, 0))
	policy := task.Policy{MaxAttempts: 3, Timeout: time.Minute, Retention: time.Hour}
	b.ResetTimer()
	for done := 0; done < b.N; done += benchBatch {
		tasks := make([]task.Task, min(benchBatch, b.N-done))
		for i := range tasks {
			tasks[i] = benchTask(done+i, payload)
		}
		applyAll(b, s, tasks, store.PutWaiting, nil)
		waiting := append([]task.Task(nil), tasks...)
		applyAll(b, s, tasks, store.PutTask, func(t task.Task) (task.Task, task.Effect, error) {
			return t.Apply(task.Event{Kind: task.Enqueue}, now, policy)
		})
		applyAll(b, s, waiting, store.DeleteWaiting, nil)
		applyAll(b, s, tasks, store.ReplaceTask, func(t task.Task) (task.Task, task.Effect, error) {
			return t.Apply(task.Event{Kind: task.Claim, Seq: t.Seq, Worker: "w-1", Lease: time.Minute}, now, policy)
		})
		applyAll(b, s, tasks, store.ReplaceTask, func(t task.Task) (task.Task, task.Effect, error) {
			return t.Apply(task.Event{Kind: task.Finish, Outcome: task.OutcomeSuccess, Worker: "w-1", Attempt: 1, Started: now}, now, policy)
		})
	}
}

// applyAll steps all tasks and writes them.
func applyAll(b *testing.B, s *store.Store, tasks []task.Task, kind store.OpKind, step func(task.Task) (task.Task, task.Effect, error)) {
	b.Helper()
	ops := make([]store.Op, len(tasks))
	for i := range tasks {
		if step != nil {
			next, _, err := step(tasks[i])
			if err != nil {
				b.Fatal(err)
			}
			tasks[i] = next
		}
		ops[i] = store.Op{Kind: kind, Task: tasks[i], Lazy: kind == store.DeleteWaiting}
	}
	mustApply(b, s, ops)
}

func BenchmarkSingleSyncedWrite(b *testing.B) {
	s := openBench(b)
	payload := make([]byte, 200)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		mustApply(b, s, []store.Op{{Kind: store.PutWaiting, Task: benchTask(i, payload)}})
	}
}

// BenchmarkDrainScan reads pages from the head and deletes them, as a dispatcher does.
func BenchmarkDrainScan(b *testing.B) {
	s := openBench(b)
	insert(b, s, 0, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for drained := 0; drained < b.N; {
		rows, err := s.ScanWaiting(b.Context(), task.Partition{Lambda: 7, Priority: 1}, store.WaitingKey{}, 1<<62, 4096)
		if err != nil || len(rows) == 0 {
			b.Fatal(len(rows), err)
		}
		ops := make([]store.Op, len(rows))
		for i := range rows {
			ops[i] = store.Op{Kind: store.DeleteWaiting, Task: rows[i], Lazy: true}
		}
		mustApply(b, s, ops)
		drained += len(rows)
	}
}

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
	t.Wake, t.WakeRow = t.Due, task.WakeRow{At: t.Due, Seq: 1}
	binary.BigEndian.PutUint64(t.ID[:], uint64(1_800_000_000_000+n/100)<<16|0x7000|mixed>>52) // a UUIDv7, 100 of them in a millisecond
	binary.BigEndian.PutUint64(t.ID[8:], mixed*0xd6e8feb86659fd93|1<<63)
	return t
}

func mustApply(tb testing.TB, s *store.Store, ops []store.Op) {
	tb.Helper()
	results, err := s.Apply(tb.Context(), ops)
	if err != nil {
		tb.Fatal(err)
	}
	for i, err := range results {
		if err != nil {
			tb.Fatalf("op %d: %v", i, err)
		}
	}
}

// insert puts n wake-up rows in batches.
func insert(tb testing.TB, s *store.Store, first, n int) {
	tb.Helper()
	payload := make([]byte, 200)
	ops := make([]store.Op, 0, benchBatch)
	for i := range n {
		ops = append(ops, store.First(benchTask(first+i, payload))...)
		if len(ops) == benchBatch || i == n-1 {
			mustApply(tb, s, ops)
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

// BenchmarkLife is the five writes of a managed task: put, dispatch, claim, end, delete the wake-up row.
func BenchmarkLife(b *testing.B) {
	s := openBench(b)
	payload := make([]byte, 200)
	b.ResetTimer()
	for done := 0; done < b.N; done += benchBatch {
		tasks := make([]task.Task, min(benchBatch, b.N-done))
		for i := range tasks {
			tasks[i] = benchTask(done+i, payload)
		}
		live(b, s, tasks)
	}
}

// live walks tasks through their lives.
func live(b *testing.B, s *store.Store, tasks []task.Task) {
	b.Helper()
	now := task.InstantOf(time.Unix(1_800_000_000, 0))
	policy := task.Policy{MaxAttempts: 3, Timeout: time.Minute, Retention: time.Hour}
	applyAll(b, s, tasks, func(t *task.Task) []store.Op { return store.First(*t) })
	applyAll(b, s, tasks, func(t *task.Task) []store.Op {
		step(b, t, task.Event{Kind: task.Enqueue, By: "s-1"}, now, policy)
		return []store.Op{{Kind: store.PutTask, Task: *t}}
	})
	applyAll(b, s, tasks, func(t *task.Task) []store.Op {
		step(b, t, task.Event{Kind: task.Claim, Seq: t.Seq, Worker: "w-1", Lease: time.Minute}, now, policy)
		return store.Change(*t, false, false)
	})
	applyAll(b, s, tasks, func(t *task.Task) []store.Op {
		step(b, t, task.Event{Kind: task.Finish, Outcome: task.OutcomeSuccess, Worker: "w-1", Attempt: 1, Started: now}, now, policy)
		return store.Change(*t, false, false)
	})
}

func step(b *testing.B, t *task.Task, e task.Event, now task.Instant, policy task.Policy) {
	b.Helper()
	next, _, err := t.Apply(e, now, policy)
	if err != nil {
		b.Fatal(err)
	}
	*t = next
}

// applyAll performs the writes of all tasks in one call.
func applyAll(b *testing.B, s *store.Store, tasks []task.Task, writes func(*task.Task) []store.Op) {
	b.Helper()
	ops := make([]store.Op, 0, 2*len(tasks))
	for i := range tasks {
		ops = append(ops, writes(&tasks[i])...)
	}
	mustApply(b, s, ops)
}

func BenchmarkSingleSyncedWrite(b *testing.B) {
	s := openBench(b)
	payload := make([]byte, 200)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		mustApply(b, s, store.First(benchTask(i, payload)))
	}
}

// BenchmarkImmediate stores one task as enqueued: wake-up row and task row, in one commit and one sync.
func BenchmarkImmediate(b *testing.B) {
	s := openBench(b)
	payload := make([]byte, 200)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		t := benchTask(i, payload)
		t.State = task.Enqueued
		mustApply(b, s, store.FirstWithRow(t))
	}
}

// BenchmarkLook is what the scheduler does every 5 s at 1,000 tasks a second: it reads a partition from a
// minute before now, all of whose rows have come and gone. Pinned has an older row besides, of a task that
// runs for long.
func BenchmarkLook(b *testing.B) {
	const rate, perLook, minute = 1000, 5, 60
	for name, pinned := range map[string]bool{"gone": false, "pinned": true} {
		b.Run(name, func(b *testing.B) {
			s := openBench(b)
			payload := make([]byte, 200)
			n := 0
			at := func(second int) task.Instant { return task.FromMillis(int64(1_800_000_000+second) * 1000) }
			fill := func(second int) { // one second of tasks, from begin to end
				tasks := make([]task.Task, rate)
				for i := range tasks {
					tasks[i] = benchTask(n, payload)
					due := at(second) + task.Instant(i)*1000
					tasks[i].Due, tasks[i].Wake, tasks[i].WakeRow.At = due, due, due
					n++
				}
				live(b, s, tasks)
			}
			if pinned {
				old := benchTask(1<<30, payload)
				old.Due = at(-minute)
				mustApply(b, s, store.First(old))
			}
			for second := range minute {
				fill(second)
			}
			part := task.Partition{Lambda: 7, Priority: 1}
			if _, err := s.ScanSchedule(b.Context(), part, store.WakeKey{}, at(minute), 1000); err != nil { // the full scan at take-over
				b.Fatal(err)
			}
			var looking time.Duration
			b.ResetTimer()
			for i := range b.N {
				now := minute + i*perLook
				for second := range perLook {
					fill(now + second)
				}
				began := time.Now()
				rows, err := s.ScanSchedule(b.Context(), part, store.WakeKey{Wake: at(now + perLook - minute)}, at(now+2*perLook), 1000)
				looking += time.Since(began)
				if err != nil || len(rows) != 0 {
					b.Fatal(len(rows), err)
				}
			}
			b.ReportMetric(float64(looking.Nanoseconds())/float64(b.N), "ns/look")
		})
	}
}

// BenchmarkDrainScan reads pages from the head and deletes them, as a dispatcher does.
func BenchmarkDrainScan(b *testing.B) {
	s := openBench(b)
	insert(b, s, 0, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for drained := 0; drained < b.N; {
		rows, err := s.ScanSchedule(b.Context(), task.Partition{Lambda: 7, Priority: 1}, store.WakeKey{}, 1<<62, 4096)
		if err != nil || len(rows) == 0 {
			b.Fatal(len(rows), err)
		}
		ops := make([]store.Op, len(rows))
		for i := range rows {
			ops[i] = store.Remove(&rows[i])
		}
		mustApply(b, s, ops)
		drained += len(rows)
	}
}

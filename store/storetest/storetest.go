// Package storetest checks drivers. Run is the conformance suite of store.Driver. Differential compares two
// drivers over random operations. Faulty wraps a driver and makes chosen writes fail both ways: not applied,
// and applied although an error came back.
package storetest

import (
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Run checks one driver. open returns an empty store each time; Run closes it.
func Run(t *testing.T, open func(t *testing.T) store.Driver) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, *fixture)
	}{
		{"WakeupConditions", testWakeupConditions},
		{"WakeupSeqs", testWakeupSeqs},
		{"ReplaceWakeup", testReplaceWakeup},
		{"Chains", testChains},
		{"ChainsInOneCall", testChainsInOneCall},
		{"TaskConditions", testTaskConditions},
		{"PayloadConditions", testPayloadConditions},
		{"ControlConditions", testControlConditions},
		{"EveryFieldComesBack", testEveryFieldComesBack},
		{"MissingRows", testMissingRows},
		{"WakeKeysAreWhole", testWakeKeysAreWhole},
		{"ReturnedValuesAreOwned", testReturnedValuesAreOwned},
		{"OneKeyInOneCall", testOneKeyInOneCall},
		{"EachOpIsAtomicByItself", testEachOpIsAtomicByItself},
		{"LargeCalls", testLargeCalls},
		{"LazyWritesAreSeen", testLazyWritesAreSeen},
		{"ScanSchedule", testScanSchedule},
		{"ScanScheduleLateInsert", testScanScheduleLateInsert},
		{"ScanSchedulePages", testScanSchedulePages},
		{"WakeupsFollowTheRow", testWakeupsFollowTheRow},
		{"ScanEnded", testScanEnded},
		{"DeadLetters", testDeadLetters},
		{"Sweep", testSweep},
		{"SweepTakesTheWakeupRow", testSweepTakesTheWakeupRow},
		{"SweepSparesRedriven", testSweepSparesRedriven},
		{"Controls", testControls},
		{"OneRacerWins", testOneRacerWins},
		{"ConcurrentQueue", testConcurrentQueue},
		{"Depths", testDepths},
		{"EndedContext", testEndedContext},
		{"Settle", testSettle},
		{"SettleLostWakeup", testSettleLostWakeup},
		{"SettleChains", testSettleChains},
		{"SettleAfterRowInPlace", testSettleAfterRowInPlace},
		{"SettleGivesUp", testSettleGivesUp},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := open(t)
			t.Cleanup(func() {
				if err := d.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			c.test(t, &fixture{T: t, d: d})
		})
	}
}

// fixture is one empty driver under test.
type fixture struct {
	*testing.T
	d store.Driver
}

// try applies ops and returns their outcomes.
func (f *fixture) try(ops ...store.Op) []error {
	f.Helper()
	results, err := f.d.Apply(f.Context(), ops)
	if err != nil {
		f.Fatalf("apply: %v", err)
	}
	if len(results) != len(ops) {
		f.Fatalf("apply answered %d of %d ops", len(results), len(ops))
	}
	return results
}

// apply applies ops that must succeed.
func (f *fixture) apply(ops ...store.Op) {
	f.Helper()
	results := f.try(ops...)
	for i, op := range ops {
		if results[i] != nil {
			f.Fatalf("op %d, kind %d: %v", i, op.Kind, results[i])
		}
	}
}

// refuse applies one op, whose condition must fail.
func (f *fixture) refuse(op store.Op) {
	f.Helper()
	_ = f.conflict(op)
}

// conflict applies one op, whose condition must fail, and returns the row that the driver shows.
func (f *fixture) conflict(op store.Op) *store.ConflictError {
	f.Helper()
	err := f.try(op)[0]
	conflict, ok := err.(*store.ConflictError) //nolint:errorlint // the contract names the type
	if !ok {
		f.Fatalf("op of kind %d: got %v, want a conflict", op.Kind, err)
	}
	return conflict
}

// conflictWith applies one op, whose condition must fail because of the given row.
func (f *fixture) conflictWith(op store.Op, row task.Task) {
	f.Helper()
	if c := f.conflict(op); c.Task == nil || !reflect.DeepEqual(*c.Task, row) {
		f.Errorf("conflict of op of kind %d shows %+v, want the stored row %+v", op.Kind, c.Task, row)
	}
}

// begin returns a fixture of the same driver, without the rows of settle cases, and applies ops.
func (f *fixture) begin(t *testing.T, ops ...store.Op) *fixture {
	t.Helper()
	sub := &fixture{T: t, d: f.d}
	sub.clean()
	sub.apply(ops...)
	return sub
}

func (f *fixture) task(id task.ID) task.Task {
	f.Helper()
	rows, err := f.d.Tasks(f.Context(), []task.ID{id})
	if err != nil || len(rows) != 1 {
		f.Fatalf("tasks: %d rows, %v", len(rows), err)
	}
	return rows[0]
}

// wakeup reads the wake-up row that t names.
func (f *fixture) wakeup(t task.Task) task.Task {
	f.Helper()
	rows, err := f.d.Wakeups(f.Context(), []store.WakeKey{store.KeyOf(&t)})
	if err != nil || len(rows) != 1 {
		f.Fatalf("wake-ups: %d rows, %v", len(rows), err)
	}
	return rows[0]
}

// These partitions are neighbours in the order of keys.
var (
	partA = task.Partition{Lambda: 7, Priority: 1, Shard: 0}
	partB = task.Partition{Lambda: 7, Priority: 1, Shard: 1}
	partC = task.Partition{Lambda: 8}
)

const base = task.Instant(1_800_000_000_000_000)

// at returns the instant n milliseconds after base.
func at(n int) task.Instant { return base + task.Instant(n)*1000 }

func idOf(n int) task.ID {
	var id task.ID
	binary.BigEndian.PutUint64(id[:], 0x0190_0000_0000_7000)
	binary.BigEndian.PutUint64(id[8:], 1<<63|uint64(n))
	return id
}

// newTask returns task n in its first state.
func newTask(n int, p task.Partition, due task.Instant) task.Task {
	return task.Task{
		ID: idOf(n), Partition: p, State: task.Scheduled, Seq: 1,
		Due: due, Created: base, Wake: due, WakeRow: task.WakeRow{At: due, Seq: 1}, Payload: []byte("payload"), PayloadSize: 7,
	}
}

// next returns the row after a change of state.
func next(t task.Task, s task.State, wake task.Instant) task.Task {
	t.Seq++
	t.State, t.Wake = s, wake
	return t
}

// named returns the row with another wake-up row.
func named(t task.Task, when task.Instant, seq uint64) task.Task {
	t.WakeRow = task.WakeRow{At: when, Seq: seq}
	return t
}

// bare returns a wake-up row of the task that holds only its id.
func bare(t task.Task, when task.Instant, seq uint64) task.Task {
	return task.Task{ID: t.ID, Partition: t.Partition, Seq: seq, Wake: when, WakeRow: task.WakeRow{At: when, Seq: seq}}
}

// acquired returns the wake-up row after a process acquired it.
func acquired(t task.Task, process string) task.Task {
	t = next(t, task.Acquired, t.Wake)
	t.WakeRow.Seq++
	t.Worker, t.ClaimedAt = process, at(15)
	return t
}

// ended returns the row after its end, with its expiry.
func ended(t task.Task, s task.State, when, expire task.Instant) task.Task {
	t = next(t, s, 0)
	t.Ended, t.ExpireAt = when, expire
	return t
}

// full returns a task with every field set.
func full(n int, p task.Partition) task.Task {
	t := newTask(n, p, at(5))
	t.State, t.Seq, t.WakeRow = task.Processing, 41, task.WakeRow{At: at(4), Seq: 40}
	t.Collection, t.Key, t.LimitKey, t.Digest = "orders", "key-ü", "acme", [16]byte{1, 2, 3}
	t.Overrides = task.Overrides{MaxAttempts: 3, Timeout: 1, BackoffMin: 2, BackoffMax: 1 << 50}
	t.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	t.Attempt, t.Failures, t.Lost, t.Blamed, t.Enqueues = 9, 8, 7, 1, 1<<32-1
	t.Suspect, t.CancelRequested = true, true
	t.Member = &task.Member{Group: task.NewID(1, 2, 3), Index: 7, Until: t.Due + 9, Try: 2}
	t.GroupEnd = &task.GroupEnd{Group: task.NewID(4, 5, 6), Members: 3, Expired: true, Cancelled: true}
	t.GroupEnd.Ended[task.Success], t.GroupEnd.Ended[task.Dead] = 2, 1
	link := task.Link{ID: newTask(7, p, at(5)).ID, Partition: task.Partition{Lambda: 3, Priority: 1, Shard: 2}, Due: at(4), Life: 5}
	t.Chain = &task.Chain{
		Root: link, Parent: link, Edge: task.Else, Index: 3, Depth: 4, Round: 2, Paused: true, PausedDue: at(6),
		Follow: []byte("follow"), FollowID: newTask(8, p, at(5)).ID, FollowBytes: 6, FollowCount: 1, Outcome: []byte("outcome"), FromParent: true,
	}
	t.Chain.Held = []task.Held{{Edge: task.Finally, Index: 2, Holder: link}, {Edge: task.Then, Holder: link}}
	t.Chain.StartBefore, t.Chain.FollowSum = at(9), link.ID
	t.Chain.Earlier = []task.Earlier{
		{Ended: at(3), Succeeded: true, Added: []task.Added{{Edge: task.Then, Index: 1, Task: link}, {Edge: task.Finally, Task: link}}}, {Round: 1, Ended: at(4), Paused: true},
	}
	t.Chain.Added[0], t.Chain.Added[1], t.Chain.Added[2] = 1, 2, 3
	t.Occurrence = &task.Occurrence{
		Cron: "nightly", Life: at(1), At: task.Firing{Revision: 3, Nominal: at(5)}, Before: task.Firing{Revision: 2, Nominal: at(4)},
		Ran: task.Firing{Revision: 1, Nominal: at(3)}, Failed: 2, Succeeded: at(2), Backfill: true,
	}
	t.Blob = &task.Blob{ID: [16]byte{5}, Bytes: 99 << 20, SHA256: [32]byte{6}}
	t.Worker, t.Enqueued, t.ClaimedAt, t.Started, t.FirstStarted = "host-1/22", at(6), at(7), at(8), at(2)
	t.History = []task.Attempt{
		{Number: 7, Worker: "host-2/1", Start: at(2), End: at(3), Outcome: task.OutcomeRetriable, Error: "no route"},
		{Number: 8, Worker: "host-3/1", End: at(4), Outcome: task.OutcomeWorkerLost},
	}
	return t
}

func put(kind store.OpKind, t task.Task) store.Op { return store.Op{Kind: kind, Task: t} }

// then returns an op that follows the one before it.
func then(kind store.OpKind, t task.Task) store.Op {
	return store.Op{Kind: kind, Task: t, Follows: true}
}

func ids(rows []task.Task) []int {
	found := make([]int, len(rows))
	for i := range rows {
		found[i] = int(binary.BigEndian.Uint64(rows[i].ID[8:]) &^ (1 << 63))
	}
	return found
}

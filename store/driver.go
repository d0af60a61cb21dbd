package store

import (
	"context"
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// Driver stores rows in one kind of database. Everything that is the same for all drivers (limits,
// validation, read-back of unknown outcomes, metrics) is in Store. The suite in storetest checks a driver.
//
// A driver holds four kinds of rows:
//
//   - wake-up rows, keyed by (partition, wake, id): at least one for every live task. A row holds a task
//     without a task row, or the first state of a task that has one, or only an id (task.Task.IsBare);
//   - task rows, keyed by id: keyed, dispatched and ended tasks, with a list of dead letters (partition,
//     ended, id) that holds exactly the rows in Dead;
//   - payload rows, keyed by task.Task.PayloadID of their task;
//   - control rows, keyed by (kind, name).
//
// All methods are safe for concurrent use. Returned values belong to the caller, except Payload slices, which
// nobody may change. Reads see every write that was acknowledged before they began.
type Driver interface {
	// Apply performs conditional writes, each atomic by itself. results[i] is nil when ops[i] was applied and
	// durable (with Op.Lazy: applied, durable soon), *ConflictError when its condition failed, ErrFull when
	// Op.New is set and the store is full, ErrUnknown when it may or may not have been applied, ErrSkipped
	// when it was not tried, because it follows an op that does not hold or whose outcome is unknown. Ops on
	// one key are applied in order. An op that follows another is applied after it, and durable no earlier; a
	// driver that can applies both in one commit. A call-wide error means ErrUnknown for every op.
	Apply(ctx context.Context, ops []Op) (results []error, err error)

	// Tasks reads task rows, strongly consistent. A missing row has a zero ID in its place. A row among
	// several that cannot be read has an ID and no state.
	Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error)
	// Wakeups reads wake-up rows, strongly consistent; a missing row has a zero ID in its place.
	Wakeups(ctx context.Context, keys []WakeKey) ([]task.Task, error)
	// Payload reads a payload row, named by the PayloadID of its task; ErrNotFound when there is none.
	Payload(ctx context.Context, id task.ID) ([]byte, error)

	// ScanSchedule returns the first limit wake-up rows of a partition in order of (wake, id), strongly
	// consistent, after the given key (zero: from the head; its partition is not looked at) and with a wake
	// at or before through.
	ScanSchedule(ctx context.Context, p task.Partition, after WakeKey, through task.Instant, limit int) ([]task.Task, error)
	// ScanEnded pages over rows in one end, or in any when s is task.Unknown, of one partition when p is not
	// nil. The driver chooses the order. cursor is empty for the first page; the returned one is empty after
	// the last. A page may be empty although more follow.
	ScanEnded(ctx context.Context, p *task.Partition, s task.State, cursor []byte, limit int) ([]task.Task, []byte, error)

	// Controls reads the control row of that kind and name, or all of the kind when name is empty.
	Controls(ctx context.Context, kind, name string) ([]Control, error)

	// Sweep deletes up to limit ended rows that expired at or before now, each with its payload and its
	// wake-up row in one commit, and returns how many. A driver whose service deletes ended rows by itself
	// returns 0.
	Sweep(ctx context.Context, now task.Instant, limit int) (int, error)

	// Capabilities returns what else the driver can do. The answer never changes.
	Capabilities() Capabilities

	// Close releases all resources; acknowledged writes stay. No call may follow.
	Close() error
}

// Capabilities has what only some drivers can do. The zero value means none of it.
type Capabilities struct {
	// Depths counts the live tasks of each partition that has any. ready is false while the driver still
	// counts after a start. nil: the driver keeps no counts.
	Depths func() (counts map[task.Partition]Depth, ready bool)
	// ControlsOmitted is Controls of a kind that leaves out rows it cannot read, and returns the reason for
	// each by name: ErrVersion or ErrCorrupt. nil: Controls leaves out none.
	ControlsOmitted func(ctx context.Context, kind string) (rows []Control, omitted map[string]error, err error)
	// Full reports whether writes with Op.New are refused with ErrFull. nil: never.
	Full func() bool
	// Health returns the state of the driver's files. nil: it has none.
	Health func() Health
	// PayloadsExpire says that payload rows expire by themselves some time after they are needed, at no cost,
	// so that deleting them would only cost.
	PayloadsExpire bool
	// EndedExpire says that ended rows are deleted some time after they expired, without their wake-up rows,
	// even if nobody has read those since.
	EndedExpire bool
	// Snapshot takes a snapshot of all files, one at a time. nil: the driver's service makes its own backups.
	Snapshot func(ctx context.Context) (Snapshot, error)
	// KeyLoads returns the load of each partition of the schedule since the last call. nil: no partition has
	// a limit of its own.
	KeyLoads func() map[task.Partition]KeyLoad
}

// Health is the state of a driver's files.
type Health struct {
	Damaged       []string // files with a part that cannot be read; calls that need it fail with ErrCorrupt
	ScrubbedBytes uint64   // bytes that were compared with their checksums in the background
	Scrubs        uint64   // complete passes of that over all files
}

// KeyLoad is the load of one process on a partition of the schedule.
type KeyLoad struct {
	Units     int  // accepted write units
	Throttled bool // a write was throttled
}

// Depth is the number of live tasks of a partition in each state. Tasks in Scheduled without a task row are
// its wake-up rows less its live task rows; tasks in Acquired are counted by their wake-up rows.
type Depth [task.Expired + 1]int64

// WakeKey is the key of a wake-up row.
type WakeKey struct {
	Partition task.Partition
	Wake      task.Instant
	ID        task.ID
}

// KeyOf returns the key of the wake-up row that a task row names, or of a wake-up row itself.
func KeyOf(t *task.Task) WakeKey {
	return WakeKey{Partition: t.Partition, Wake: t.WakeRow.At, ID: t.ID}
}

// Control is a row of settings or leases, changed by compare-and-set on Version.
type Control struct {
	Kind    string
	Name    string
	Version uint64 // starts at 1
	Value   []byte
}

// OpKind is a kind of write.
type OpKind uint8

// The kinds of writes.
const (
	// PutWakeup adds the wake-up row at KeyOf(Task) with Task.WakeRow.Seq, or replaces one with a lower seq;
	// conflicts when there is one whose seq is not lower. The next operation is tried in both cases.
	PutWakeup OpKind = iota + 1
	// DeleteWakeup removes the wake-up row at KeyOf(Task); conflicts when there is none, and unless the row's
	// seq is Task.WakeRow.Seq or that is 0. With seq 0 a driver may count an absent row as removed. With Lazy
	// it may answer before it checks the condition; its own reads then show no row, unless the condition
	// fails.
	DeleteWakeup
	// PutTask adds a task row; conflicts when the id exists.
	PutTask
	// ReplaceTask replaces the task row of the same id; conflicts unless its Seq is Replaces().
	ReplaceTask
	// PutPayload adds the payload row Task.ID, which is the PayloadID of its task; conflicts when it exists.
	// Task.Due, and Task.ExpireAt if it is known, tell a driver whose payloads expire by themselves how long
	// the payload is needed.
	PutPayload
	// DeletePayload removes the payload row Task.ID, if there is one.
	DeletePayload
	// PutControl stores Control; conflicts unless the row's version is Control.Version-1
	// (Version 1: unless the row is absent).
	PutControl
	// DeleteControl removes the control row; conflicts unless its version is Control.Version.
	DeleteControl
	// ReplaceWakeup replaces the wake-up row at KeyOf(Task), which holds a task; conflicts unless its seq is
	// Task.WakeRow.Seq-1.
	ReplaceWakeup
)

// PatientMax is how much later a patient write may be acknowledged. PatientEndMax is the same for one that
// ends a task, for which nothing remains to be done.
const (
	PatientMax    = 4 * time.Millisecond
	PatientEndMax = 100 * time.Millisecond
)

// Op is one conditional write of one row.
type Op struct {
	Kind    OpKind
	Task    task.Task // DeleteWakeup uses only ID, Partition and WakeRow; payload ops only ID, and PutPayload its hints
	Payload []byte
	Control Control
	// Lazy allows acknowledging the write before it is durable. A crash that undoes it must be harmless:
	// lazy.go lists the writes for which that is so, and the constructors in change.go set the flag.
	Lazy bool
	// Patient allows acknowledging the write up to PatientMax or PatientEndMax later, so that the writes of
	// several calls share one sync of the disk, or one request. An acknowledged patient write is as durable
	// as any other. A call is patient if all its writes are patient or lazy.
	Patient bool
	// New marks a write that adds a task: the rows of a Schedule call. A full store refuses writes with New
	// and accepts all others, so that stored tasks still drain.
	New bool
	// From is the seq of the row that a ReplaceTask replaces; 0: Task.Seq-1.
	From uint64
	// Amends says that a ReplaceTask changes a task row that has ended before, and so is no end.
	Amends bool
	// Alone says that a DeleteWakeup is of a task whose ended row was read, and that nothing follows it.
	Alone bool
	// Follows makes the write depend on the op before it in the list: it is applied only if that one was,
	// or, after a PutWakeup, if there was a row with the same seq or a higher one. Otherwise its result is
	// ErrSkipped. Ops that follow each other are the writes of one task in one partition, and the first rows
	// of what follows its end.
	Follows bool
}

// Replaces returns the seq of the row that a ReplaceTask replaces.
func (op *Op) Replaces() uint64 {
	if op.From != 0 {
		return op.From
	}
	return op.Task.Seq - 1
}

// Holds reports whether the op that follows is tried after this result.
func (op *Op) Holds(result error) bool {
	return result == nil || (op.Kind == PutWakeup && errors.Is(result, ErrConflict))
}

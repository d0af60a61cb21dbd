package store

import (
	"context"
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// Driver is what an implementer of a store writes. Everything that is the same
// for all of them (limits, validation, read-back of unknown outcomes, metrics)
// is in Store, above. The suite in storetest says what is owed in executable form.
//
// A driver holds four kinds of rows:
//
//   - wake-up rows, keyed by (partition, wake, id): at least one for every live task. A row holds a task that
//     has no task row yet, or the first state of one that has, or nothing but an id (task.Task.IsBare);
//   - task rows, keyed by id: keyed, dispatched and ended tasks, with a list of dead letters (partition,
//     ended, id) that holds exactly the rows in Dead;
//   - payload rows, keyed by task.Task.PayloadID of their task;
//   - control rows, keyed by (kind, name).
//
// All methods are safe for concurrent use. Values returned belong to the caller,
// except Payload slices, which nobody may write to. Reads see every write that
// was acknowledged before they began.
type Driver interface {
	// Apply performs conditional writes, each atomic by itself. results[i] is nil when ops[i] was applied and
	// durable (with Op.Lazy: applied, durable soon), *ConflictError when its condition failed, ErrFull when
	// Op.New is set and the store is full, ErrUnknown when it may or may not have been applied, ErrSkipped
	// when it was not tried, since it follows an op that does not hold or whose outcome is unknown. Ops on
	// one key are applied in order, and an op that follows another is applied after it was, and durable no
	// earlier: a driver that can does both in one commit. A call-wide error means the same as ErrUnknown for
	// every op.
	Apply(ctx context.Context, ops []Op) (results []error, err error)

	// Tasks reads task rows, strongly consistent; a missing row has a zero ID in its place, and one that
	// cannot be read, of several that were asked for, an ID and no state.
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
	// nil. The order is the driver's. cursor is empty for the first page; the returned one is empty after the
	// last. A page may be empty though more follow.
	ScanEnded(ctx context.Context, p *task.Partition, s task.State, cursor []byte, limit int) ([]task.Task, []byte, error)

	// Controls reads the control row of that kind and name, or all of the kind when name is empty.
	Controls(ctx context.Context, kind, name string) ([]Control, error)

	// Sweep deletes up to limit ended rows that expired at or before now, each with its payload and its
	// wake-up row in one commit, and says how many. A driver whose service deletes ended rows by itself
	// returns 0.
	Sweep(ctx context.Context, now task.Instant, limit int) (int, error)

	// Capabilities says what else the driver can do. It is the same with every call.
	Capabilities() Capabilities

	// Close releases everything; what was acknowledged stays. No call may follow.
	Close() error
}

// Capabilities is what some drivers can do and others cannot. The zero value is that of a driver that can do
// nothing else.
type Capabilities struct {
	// Depths counts the live tasks of each partition that has any. ready is false while the counts are
	// still being built after a start. nil: the driver keeps no counts.
	Depths func() (counts map[task.Partition]Depth, ready bool)
	// ControlsOmitted is Controls of a kind, and why each row that is left out of them is, by name:
	// ErrVersion or ErrCorrupt. nil: Controls leaves out none.
	ControlsOmitted func(ctx context.Context, kind string) (rows []Control, omitted map[string]error, err error)
	// Full reports whether writes with Op.New are refused with ErrFull. nil: never.
	Full func() bool
	// Health says what the driver knows of its own files. nil: it has none.
	Health func() Health
	// PayloadsExpire says that a payload row that nobody deletes is deleted some time after it is wanted, at
	// no cost, so that deleting it would only add to the cost.
	PayloadsExpire bool
	// EndedExpire says that ended rows are deleted some time after they expired without their wake-up rows,
	// whether anybody has looked at those since or not.
	EndedExpire bool
	// Snapshot takes a snapshot of all files, one at a time. nil: the driver's service has its own way of
	// making backups.
	Snapshot func(ctx context.Context) (Snapshot, error)
	// KeyLoads takes what was written to each partition of the schedule since it was called last. nil: no
	// partition has a limit of its own.
	KeyLoads func() map[task.Partition]KeyLoad
}

// Health is what a driver with files of its own knows of them.
type Health struct {
	Damaged       []string // files of which a part cannot be read, so that calls that need it fail with ErrCorrupt
	ScrubbedBytes uint64   // of files that were read in the background to compare them with their checksums
	Scrubs        uint64   // how often that came through all files
}

// KeyLoad is what one process wrote to a partition of the schedule.
type KeyLoad struct {
	Units     int  // write units that came through
	Throttled bool // something was put off
}

// Depth is how many live tasks a partition has in each state. Those in Scheduled that have no task row are
// its wake-up rows less its live task rows; those in Acquired are counted by their wake-up rows.
type Depth [task.Delivered + 1]int64

// WakeKey finds a wake-up row.
type WakeKey struct {
	Partition task.Partition
	Wake      task.Instant
	ID        task.ID
}

// KeyOf is the key of the wake-up row that a task names: of a task row, or of a wake-up row itself.
func KeyOf(t *task.Task) WakeKey {
	return WakeKey{Partition: t.Partition, Wake: t.WakeRow.At, ID: t.ID}
}

// Control is one row of settings or leases, changed by compare-and-set on Version.
type Control struct {
	Kind    string
	Name    string
	Version uint64 // starts at 1
	Value   []byte
}

// OpKind is what a write does.
type OpKind uint8

// The writes a driver knows.
const (
	// PutWakeup adds the wake-up row at KeyOf(Task) with Task.WakeRow.Seq, or replaces one with a lower seq
	// there; conflicts when there is one whose seq is not lower. What follows it holds then, too.
	PutWakeup OpKind = iota + 1
	// DeleteWakeup removes the wake-up row at KeyOf(Task); conflicts when there is none, and unless the row's
	// seq is Task.WakeRow.Seq or that is 0. With seq 0 a driver may take a row that is not there for removed,
	// and with Lazy it may say that the row is removed before it looks; its own reads then show none, unless
	// the condition fails.
	DeleteWakeup
	// PutTask adds a task row; conflicts when the id exists.
	PutTask
	// ReplaceTask replaces the task row of the same id; conflicts unless its Seq is Task.Seq-1.
	ReplaceTask
	// PutPayload adds the payload row Task.ID, which is the PayloadID of its task; conflicts when it exists.
	// Task.Due, and Task.ExpireAt if it is known, tell a driver whose payloads expire by themselves how long
	// the payload will be wanted.
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

// PatientMax is how much later a patient write may be acknowledged, and PatientEndMax one that ends a task:
// nothing is to be done about that task any more.
const (
	PatientMax    = 4 * time.Millisecond
	PatientEndMax = 100 * time.Millisecond
)

// Op is one conditional write of one row.
type Op struct {
	Kind    OpKind
	Task    task.Task // DeleteWakeup reads only its ID, Partition and WakeRow, payload ops only the id and PutPayload's hints
	Payload []byte
	Control Control
	// Lazy allows acknowledging before the write is durable. Losing it in a crash must be harmless: the table
	// in lazy.go says of which writes that is so, and the constructors in change.go set it.
	Lazy bool
	// Patient allows acknowledging up to PatientMax or PatientEndMax later than otherwise, so that the writes
	// of several calls share one sync of the disk, or one request, which costs more than any of them. An
	// acknowledged patient write is as durable as any other. A call is patient if all its writes are patient
	// or lazy.
	Patient bool
	// New marks a write that brings a task into the store: the rows of a Schedule call. A store that is
	// full refuses writes with New and lets all others through, so that what it holds still drains.
	New bool
	// Follows makes the write wait for the op before it in the list: it is applied only when that one was,
	// or, of a PutWakeup, when a row with the same seq or a higher one was there. Else its result is
	// ErrSkipped. Ops that follow each other are the writes of one task, and lie in one partition.
	Follows bool
}

// Holds reports whether an op with that result lets the op that follows it be tried.
func (op *Op) Holds(result error) bool {
	return result == nil || (op.Kind == PutWakeup && errors.Is(result, ErrConflict))
}

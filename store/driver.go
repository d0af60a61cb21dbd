package store

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// Driver is what an implementer of a store writes. Everything that is the same
// for all of them (limits, validation, read-back of unknown outcomes, metrics)
// is in Store, above. The suite in storetest says what is owed in executable form.
//
// A driver holds four kinds of rows:
//
//   - waiting rows, keyed by (partition, due, id): tasks that wait for their first dispatch, scheduled or acquired;
//   - task rows, keyed by id: keyed, dispatched and ended tasks, with a sparse index
//     of wake-ups (partition, wake, id) that holds exactly the rows with Wake ≠ 0, and a
//     list of dead letters (partition, ended, id) that holds exactly the rows in Dead;
//   - payload rows, keyed by task.Task.PayloadID of their task;
//   - control rows, keyed by (kind, name).
//
// All methods are safe for concurrent use. Values returned belong to the caller,
// except Payload slices, which nobody may write to. Reads see every write that
// was acknowledged before they began.
type Driver interface {
	// Apply performs conditional writes, each atomic by itself. results[i] is nil when
	// ops[i] was applied and durable (with Op.Lazy: applied, durable soon), *ConflictError
	// when its condition failed, ErrFull when Op.New is set and the store is full, ErrUnknown when it may or
	// may not have been applied. Ops on one key are applied in order. A call-wide
	// error means the same as ErrUnknown for every op.
	Apply(ctx context.Context, ops []Op) (results []error, err error)

	// Tasks reads task rows, strongly consistent; a missing row has a zero ID in its place.
	Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error)
	// Waiting reads waiting rows, strongly consistent; a missing row has a zero ID in its place.
	Waiting(ctx context.Context, keys []WaitingKey) ([]task.Task, error)
	// Payload reads a payload row, named by the PayloadID of its task; ErrNotFound when there is none.
	Payload(ctx context.Context, id task.ID) ([]byte, error)

	// ScanWaiting returns the first limit waiting rows of a partition in order of (due, id),
	// after the given key (zero: from the head) and due at or before through.
	ScanWaiting(ctx context.Context, p task.Partition, after WaitingKey, through task.Instant, limit int) ([]task.Task, error)
	// ScanWakeups returns the first limit task rows of a partition with a wake-up at or
	// before through, in order of (wake, id), after the given key (zero: from the head).
	// It may miss a row that was changed a moment ago.
	ScanWakeups(ctx context.Context, p task.Partition, after WakeKey, through task.Instant, limit int) ([]task.Task, error)
	// ScanEnded pages over rows in one end, or in any when s is task.Unknown, of one partition when p is not nil. The order is the
	// driver's. cursor is empty for the first page; the returned one is empty after the last.
	// A page may be empty though more follow.
	ScanEnded(ctx context.Context, p *task.Partition, s task.State, cursor []byte, limit int) ([]task.Task, []byte, error)

	// Controls reads the control row of that kind and name, or all of the kind when name is empty.
	Controls(ctx context.Context, kind, name string) ([]Control, error)

	// Sweep deletes up to limit ended rows (and their payloads) that expired at or before now,
	// and says how many. A driver whose service does this by itself returns 0.
	Sweep(ctx context.Context, now task.Instant, limit int) (int, error)

	// Close releases everything; what was acknowledged stays. No call may follow.
	Close() error
}

// Depther is an optional capability of a driver: exact counts kept by itself.
type Depther interface {
	// Depths counts the live tasks of each partition that has any. ready is false while the counts are
	// still being built after a start.
	Depths() (counts map[task.Partition]Depth, ready bool)
}

// Omitter is an optional capability of a driver whose Controls of a kind leave out what this program cannot read: telling which.
type Omitter interface {
	// ControlsOmitted is Controls of a kind, and why each row that is left out of them is, by name: ErrVersion or ErrCorrupt.
	ControlsOmitted(ctx context.Context, kind string) (rows []Control, omitted map[string]error, err error)
}

// Fuller is an optional capability of a driver: telling that it takes no new tasks.
type Fuller interface {
	// Full reports whether writes with Op.New are refused with ErrFull.
	Full() bool
}

// Expirer is an optional capability of a driver: payload rows that go away by themselves.
type Expirer interface {
	// PayloadsExpire reports whether a payload row that nobody deletes is deleted some time after it is wanted, at no
	// cost, so that deleting it would only add to the cost.
	PayloadsExpire() bool
}

// Depth is how many live tasks a partition has in each state: its waiting rows, and its task rows with a
// wake-up. A task that is just being dispatched has both and counts twice for that moment.
type Depth [task.Delivered + 1]int64

// WaitingKey finds a waiting row.
type WaitingKey struct {
	Partition task.Partition
	Due       task.Instant
	ID        task.ID
}

// KeyOf is the waiting key of a task.
func KeyOf(t *task.Task) WaitingKey {
	return WaitingKey{Partition: t.Partition, Due: t.Due, ID: t.ID}
}

// WakeKey is a position in a partition's index of wake-ups.
type WakeKey struct {
	Wake task.Instant
	ID   task.ID
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
	// PutWaiting adds a waiting row for Task; conflicts when the key exists.
	PutWaiting OpKind = iota + 1
	// DeleteWaiting removes the waiting row of Task's key; conflicts when there is none, and unless the row's
	// Seq is Task.Seq or Task.Seq is 0. With Lazy or Seq 0 a driver may take a row that is not there for removed.
	DeleteWaiting
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
	// ReplaceWaiting replaces the waiting row of Task's key (partition, due, id); conflicts unless its Seq is Task.Seq-1.
	ReplaceWaiting
)

// PatientMax is how much later a patient write may be acknowledged.
const PatientMax = 4 * time.Millisecond

// Op is one conditional write of one row.
type Op struct {
	Kind    OpKind
	Task    task.Task // DeleteWaiting reads only its key and Seq, payload ops only its key and PutPayload's hints
	Payload []byte
	Control Control
	// Lazy allows acknowledging before the write is durable. Losing it in a crash must be harmless.
	Lazy bool
	// Patient allows acknowledging up to PatientMax later than otherwise, so that the writes of several calls
	// share one sync of the disk, which costs more than any of them. An acknowledged patient write is
	// as durable as any other. A call is patient if all its writes are patient or lazy.
	Patient bool
	// New marks a write that brings a task into the store: the rows of a Schedule call. A store that is
	// full refuses writes with New and lets all others through, so that what it holds still drains.
	New bool
}

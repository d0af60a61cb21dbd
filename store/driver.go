package store

import (
	"context"
	"io"
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
	// Writes returns a number that has grown if there was a write since that is not lazy. It comes with Snapshot.
	Writes func() uint64
	// KeyLoads returns the load of each partition of the schedule since the last call. nil: no partition has
	// a limit of its own.
	KeyLoads func() map[task.Partition]KeyLoad
}

// Health is the state of a driver's files.
type Health struct {
	Damaged       []string // files with a part that cannot be read; calls that need it fail with ErrCorrupt
	ScrubbedBytes uint64   // bytes that were compared with their checksums in the background
	Scrubs        uint64   // complete passes of that over all files
	// Waiting is for how long writes have waited for the disk, and none was done; 0 when none waits.
	Waiting time.Duration
}

// KeyLoad is the load of one process on a partition of the schedule.
type KeyLoad struct {
	Units     int  // accepted write units
	Throttled bool // a write was throttled
}

// Depth is the number of live tasks of a partition in each state. Tasks in Scheduled without a task row are
// its wake-up rows less its live task rows; tasks in Acquired are counted by their wake-up rows.
type Depth [task.Expired + 1]int64

// WakeKey is the key of a wake-up row. To read a row takes all of it; a scan is of one partition and needs no
// more than the place there (see Driver.ScanSchedule).
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

// ControlRows are the control rows of a store, for those who keep something in them.
type ControlRows interface {
	Control(ctx context.Context, kind, name string) (Control, error)
	Controls(ctx context.Context, kind string) ([]Control, error)
	PutControl(ctx context.Context, c Control) error
	DeleteControl(ctx context.Context, c Control) error
}

// Snapshot holds the files of a store as of one point in the order of its commits. They contain everything
// that was acknowledged before the snapshot was taken.
type Snapshot interface {
	Files() []SnapshotFile
	// Open opens a file for reading, up to its size in Files.
	Open(name string) (io.ReadCloser, error)
	// Close releases the space of the files.
	Close() error
}

// SnapshotFile is one file of a snapshot.
type SnapshotFile struct {
	Name  string
	Bytes int64
	// Immutable files have the same content in each snapshot that this process takes.
	Immutable bool
}

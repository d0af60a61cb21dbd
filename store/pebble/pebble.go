// Package pebble is the embedded store: a store.Driver on CockroachDB's
// Pebble, in one directory of one process.
//
// It owns the directory and the goroutines between Open and Close. It acknowledges a write that is not lazy
// when the write is on disk (fsync); concurrent callers share the syncs. A failed sync ends the process
// (Config.Fatal), because nobody can know what the disk then holds. It never removes a row by itself: Sweep
// says when.
//
// Files: commit.go (one committer, group commit), evaluate.go (conditions and indexes), keys.go (layout),
// floor.go (how scans avoid tombstones), space.go (full disks), logmarks.go and logloss.go (missing logs),
// tables.go (damaged data files), waiting.go (a disk that hangs), snapshot.go and restore.go (backups), verify.go and salvage.go (kinesin
// data).
package pebble

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sync/semaphore"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Config sets what differs between installations. The zero value of every field means its default.
type Config struct {
	// CacheBytes is how much of the data files is kept in memory, uncompressed; 32 MiB.
	CacheBytes int64
	// MemTableBytes is the size of one buffer of recent writes, of which there are up to
	// three; 32 MiB, and less on a file system below 2 GiB.
	MemTableBytes int
	// OpenFilesMax is how many files the store may have open, about; 500, and 80 at least.
	OpenFilesMax int
	// Logger gets compactions and flushes (debug), stalls (warn) and background errors (error). It discards.
	Logger *slog.Logger
	// Observer is called after syncs.
	Observer Observer
	// Fatal is called once, when the disk failed so that it is unknown what it holds. It should end the
	// process. If it returns, every later call is refused. The default prints one line and exits with 1.
	Fatal func(error)
	// AcceptLoss lets a store start whose logs are damaged or incomplete: it returns to the moment before
	// what is missing, and logs what that is. Otherwise such a store is refused with store.ErrCorrupt.
	AcceptLoss bool
	// FS is the file system; the machine's.
	FS vfs.FS

	unmarked  bool          // the directory is a checkpoint of the engine, which has no marks of its logs
	freshRows int           // of one generation of fresh; freshRowsMax
	headRows  int           // of one generation of headers; headRowsMax
	patience  time.Duration // of patient writes; store.PatientMax
}

// Observer holds callbacks. A nil one is not called.
type Observer struct {
	// Synced is called after each sync, with how long it took and how many rows shared it.
	Synced func(took time.Duration, rows int)
}

// Driver is an open store. All methods are safe for concurrent use.
type Driver struct {
	cfg   Config
	dir   string
	db    *pebbledb.DB
	lock  *pebbledb.Lock
	space *space
	marks *logMarks

	parts   parts
	expiry  floor // of the index of expiries
	durable durable
	synced  atomic.Uint64       // sequence number of the last batch known to be on disk; see log.go
	queued  *semaphore.Weighted // bytes of queued requests
	damage  damage
	waiting waiting

	scrubbed, scrubs atomic.Uint64 // checked bytes of data files, and complete passes

	requests chan *request // to commitLoop
	idle     sync.Pool     // of requests, for reuse; not shared with other stores, since a channel stays in its synctest bubble
	syncing  chan *group   // to syncLoop
	running  sync.WaitGroup
	stop     context.CancelFunc // ends the goroutines that need not finish

	life    sync.RWMutex // held for reading by every call, for writing by Close
	closed  bool         // guarded by life
	counted atomic.Bool  // depths are complete
	failed  atomic.Pointer[error]
	fatal   sync.Once

	snapshots sync.Mutex // held while there is a snapshot

	// Owned by commitLoop.
	unsynced      bool   // something that is not lazy was applied and not synced
	last          uint64 // number of the newest commit; see durable
	touched       *keySet
	patient       []*request  // applied, waiting for a sync
	patientRows   int         // in them
	patience      *time.Timer // fires when they have waited long enough
	fresh         *fresh
	headers       *headerCache
	seen          *seenHeaders
	groupBytes    int
	lastPartition task.Partition
	lastPart      *part
	scratchKey    []byte
	scratchValue  []byte
}

// Open opens the store in dir, and creates both when they do not exist. Errors include store.ErrInUse,
// store.ErrVersion and store.ErrCorrupt.
func Open(dir string, c Config) (*Driver, error) {
	d := newDriver(dir, c)
	if err := d.open(); err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, d.stop = context.WithCancel(context.Background())
	snapshot := d.db.NewSnapshot()
	d.running.Go(d.commitLoop)
	d.running.Go(d.syncLoop)
	d.running.Go(func() { d.markLoop(ctx) })
	d.running.Go(func() { d.scrubLoop(ctx) })
	d.running.Go(func() { d.watchDisk(ctx) })
	d.running.Go(func() { d.countDepths(ctx, snapshot) })
	return d, nil
}

func newDriver(dir string, c Config) *Driver {
	d := &Driver{
		cfg:      c.withDefaults(),
		dir:      dir,
		parts:    parts{m: map[task.Partition]*part{}},
		expiry:   newFloor(),
		queued:   semaphore.NewWeighted(queuedBytesMax),
		requests: make(chan *request, requestsQueuedMax),
		syncing:  make(chan *group, groupsSyncingMax),
		patience: time.NewTimer(store.PatientMax),
		touched:  newKeySet(2 * groupRowsMax), // a sweep touches three keys a row, and a quarter of the slots stays free
	}
	d.damage.log = d.cfg.Logger
	d.durable.moved.L = &d.durable.mu
	d.durable.hastens = make(chan struct{}, 1)
	return d
}

func (c Config) withDefaults() Config {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.FS == nil {
		c.FS = privateFS{vfs.Default}
	}
	c.freshRows = cmp.Or(c.freshRows, freshRowsMax)
	c.headRows = cmp.Or(c.headRows, headRowsMax)
	c.patience = cmp.Or(c.patience, store.PatientMax)
	if c.Fatal == nil {
		c.Fatal = exit
	}
	return c
}

// exit is the default of Config.Fatal.
func exit(err error) {
	fmt.Fprintf(os.Stderr, "kinesin: %v\n", err)
	os.Exit(1) //nolint:forbidigo // after a failed sync nothing may be acknowledged, nor said of what was
}

// fail ends the process, or, if Fatal returns, the store. The first error counts.
func (d *Driver) fail(err error) {
	d.fatal.Do(func() {
		err = fmt.Errorf("store in %s failed and cannot go on: %w", d.dir, err)
		d.failed.Store(&err)
		d.cfg.Fatal(err)
	})
}

// failure returns the error with which the store failed, nil if it did not.
func (d *Driver) failure() error {
	if err := d.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// enter begins a call, which Close then waits for; leave ends it.
func (d *Driver) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	d.life.RLock()
	err := d.failure()
	if d.closed {
		err = store.ErrClosed
	}
	if err != nil {
		d.life.RUnlock()
	}
	return err
}

func (d *Driver) leave() { d.life.RUnlock() }

// Close answers queued calls, writes memtables to data files, and releases the directory. A second Close does
// nothing.
func (d *Driver) Close() error {
	d.life.Lock()
	defer d.life.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	close(d.requests)
	d.stop()
	d.running.Wait()
	return d.closeFiles()
}

func (d *Driver) closeFiles() error {
	var errs []error
	if d.failure() == nil {
		errs = append(errs, d.db.Flush()) // the next start then replays no log
	}
	errs = append(errs, d.db.Close())
	errs = append(errs, d.marks.end(d.failure() == nil && errors.Join(errs...) == nil), d.lock.Close())
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close store in %s: %w", d.dir, err)
	}
	return nil
}

// markLoop writes the marks of the logs, so that no write waits for them.
func (d *Driver) markLoop(ctx context.Context) {
	for {
		select {
		case <-d.marks.due.C:
			d.marks.mark(func() int { return int(d.db.Metrics().WAL.Files) })
		case <-ctx.Done():
			return
		}
	}
}

// Capabilities implements store.Driver.
func (d *Driver) Capabilities() store.Capabilities {
	return store.Capabilities{Depths: d.liveTasks, Full: d.space.check, Health: d.health, Snapshot: d.takeSnapshot, Writes: d.durable.commits}
}

// Metrics are figures of the storage engine.
type Metrics struct {
	DiskBytes     uint64 // all files
	FreeBytes     uint64 // on the file system; 0 when it cannot tell
	MemTableBytes uint64
	CacheBytes    int64
	Compactions   int64
	// Tombstones is the number of deletes in the data files. A compaction drops them with the rows that they
	// delete.
	Tombstones uint64
	// ReadAmplification is the number of sorted runs that a read may have to look at; above about 20 the disk
	// does not keep up.
	ReadAmplification int
}

// Metrics reads the figures; it costs some microseconds.
func (d *Driver) Metrics() Metrics {
	if d.enter(context.Background()) != nil {
		return Metrics{}
	}
	defer d.leave()
	m := d.db.Metrics()
	return Metrics{
		DiskBytes:         m.DiskSpaceUsage(),
		FreeBytes:         d.space.free.Load(),
		MemTableBytes:     m.MemTable.Size,
		CacheBytes:        m.BlockCache.Size,
		Compactions:       m.Compact.Count,
		Tombstones:        m.Keys.TombstoneCount,
		ReadAmplification: m.ReadAmp(),
	}
}

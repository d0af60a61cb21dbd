// Package catalog holds the lambdas that this process knows: a cache of the store's control rows of kind
// "lambda", refreshed every few seconds; what is written here is known at once. It creates, changes and
// deletes lambdas. It never reads or writes tasks.
package catalog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/room"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// RefreshEvery is how soon a change made by another process is known here: so soon that the partitions of a
// new lambda have an owner within 2 s.
const RefreshEvery = 1500 * time.Millisecond

// Times that processes which share a store rely on.
const (
	// FreshFor is for how long what was read is acted on. A call that acted on something older, because the
	// store was slow or the process stood still, reads again before it answers: see Since.
	FreshFor = 4 * time.Second
	// SettledAfter is how long after a change no process acts on what was before, and indexes show what was
	// written until then.
	SettledAfter = FreshFor + 2*time.Second
	// IDAheadMax is how far ahead of a server's clock the time of a client's id may be: the clock skew that
	// AWS allows.
	IDAheadMax = 5 * time.Minute
	// GrownAfter is how long after it is written a new count of shards comes into force: when no process acts
	// on the old count, and no id of that time has been placed. The minute covers the write itself, what is
	// still acted on, and the clocks of servers.
	GrownAfter = IDAheadMax + time.Minute
	// findEvery is how often, at most, an unknown name makes the catalog read all lambdas again.
	findEvery = 100 * time.Millisecond
)

// Sentinels of the catalog.
var (
	// ErrUnknown says that no lambda has that name.
	ErrUnknown = errors.New("unknown lambda")
	// ErrExists refuses creating a lambda that exists with other settings.
	ErrExists = errors.New("lambda exists with other settings")
	// ErrFull refuses creating a lambda when its owner has as many as one may have.
	ErrFull = errors.New("too many lambdas")
	// ErrDeleting refuses creating a lambda whose deletion has begun.
	ErrDeleting = errors.New("lambda is being deleted")
	// ErrChanged says that others kept changing the lambda at the same time.
	ErrChanged = errors.New("lambda was changed at the same time")
)

// Bounds are how much an installation may have; 0: no bound. They refuse what is added. Existing lambdas are
// kept, so that a server starts whatever was created under other bounds. Processes that create lambdas at the
// same moment do not know of each other, and may each pass a bound by what the others add.
type Bounds struct {
	Lambdas          int
	LambdaPartitions int // of one lambda: its shards times its priorities
	Partitions       int // of all lambdas together
}

// Limits are what a Catalog keeps to when lambdas are created or changed.
type Limits struct {
	// ShardsDefault is how many shards a new lambda has if its creator does not say; 0: task.ShardsDefault.
	ShardsDefault uint16
	Bounds        Bounds
	// Room is where each Owner has a share of Bounds.Lambdas; nil: nobody has one.
	Room *room.Room
}

// Catalog answers from memory. It is safe for concurrent use; what it returns is shared and must not be
// changed.
type Catalog struct {
	Limits

	rows  store.ControlRows
	clock clock.Clock
	log   *slog.Logger

	known atomic.Pointer[snapshot]

	reads     atomic.Uint64 // numbers the reads of the store
	isRunning atomic.Bool
	lastTry   atomic.Int64 // when Run last began to refresh, in monotonic time

	changing chan struct{} // holds a token while a lambda is created or changed
	finding  chan struct{} // holds a token while one Find reads; guards nextFind
	nextFind time.Duration // monotonic time from which on the next Find may read

	mu      sync.Mutex // guards the rest and orders publishing
	newest  uint64     // number of the published read of all
	changed chan struct{}
}

type snapshot struct {
	began  time.Duration // monotonic time when its read began
	byName map[string]*Entry
	byRef  map[uint32]*Entry
	sorted []*Entry

	partitions int            // of all lambdas
	owned      map[string]int // lambdas of each owner
	learned    uint64         // number of the newest entry that no read of all has found yet; 0: there is none
}

// newSnapshot returns a snapshot of lambdas in any order; it takes the slice over.
func newSnapshot(began time.Duration, all []*Entry) *snapshot {
	s := &snapshot{
		began: began, sorted: all,
		byName: make(map[string]*Entry, len(all)), byRef: make(map[uint32]*Entry, len(all)), owned: map[string]int{},
	}
	for _, e := range all {
		s.byName[e.Name], s.byRef[e.Ref] = e, e
		s.partitions += partitionsOf(&e.Lambda)
		s.owned[e.Owner]++
	}
	slices.SortFunc(all, func(a, b *Entry) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// with returns a copy that has an entry, instead of one of the same name.
func (s *snapshot) with(e *Entry) *snapshot {
	next := *s
	next.byName, next.byRef, next.owned = maps.Clone(s.byName), maps.Clone(s.byRef), maps.Clone(s.owned)
	i, has := slices.BinarySearchFunc(s.sorted, e.Name, func(e *Entry, name string) int { return strings.Compare(e.Name, name) })
	after := s.sorted[i:]
	if has {
		old := after[0]
		after = after[1:]
		delete(next.byRef, old.Ref)
		next.partitions -= partitionsOf(&old.Lambda)
		next.owned[old.Owner]--
	}
	next.sorted = slices.Concat(s.sorted[:i], []*Entry{e}, after)
	next.byName[e.Name], next.byRef[e.Ref] = e, e
	next.partitions += partitionsOf(&e.Lambda)
	next.owned[e.Owner]++
	next.learned = e.learned
	return &next
}

// New returns an empty catalog; Refresh or Run fills it.
func New(rows store.ControlRows, c clock.Clock, log *slog.Logger, limits Limits) *Catalog {
	cat := &Catalog{
		Limits: limits, rows: rows, clock: c, log: log, nextFind: clock.Mono(c),
		changing: make(chan struct{}, 1), finding: make(chan struct{}, 1), changed: make(chan struct{}),
	}
	cat.known.Store(newSnapshot(0, nil))
	return cat
}

// Refresh reads all lambdas from the store. When it returns, everything that was stored before the call is
// known.
func (c *Catalog) Refresh(ctx context.Context) error {
	number, began := c.reads.Add(1), clock.Mono(c.clock)
	rows, err := c.rows.Controls(ctx, Kind)
	if err != nil {
		return fmt.Errorf("read lambdas: %w", err)
	}
	all := make([]*Entry, 0, len(rows))
	known, now := c.known.Load(), clock.Mono(c.clock)
	for _, row := range rows {
		before := known.byName[row.Name]
		entry, err := decodeUnless(before, row)
		if err != nil {
			c.log.ErrorContext(ctx, "skipping a lambda row that cannot be read", slog.String("lambda", row.Name), slog.Any("error", err))
			continue
		}
		if entry != before {
			entry.noteRead(now, before)
		}
		all = append(all, entry)
	}
	c.publish(newSnapshot(began, all), number)
	return nil
}

// publish makes next known, unless a later read is known already. A slow read does not take back what was
// learned since it began: it may have been made before that was written.
func (c *Catalog) publish(next *snapshot, number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if number < c.newest {
		return
	}
	c.newest = number
	old := c.known.Load()
	if old.learned > number {
		for _, e := range old.sorted {
			if found := next.byName[e.Name]; e.learned > number && (found == nil || found.Ref != e.Ref || found.Version < e.Version) {
				next = next.with(e)
			}
		}
		next.learned = old.learned
	}
	c.known.Store(next)
	if maps.EqualFunc(old.byName, next.byName, func(a, b *Entry) bool { return a.Version == b.Version && a.Ref == b.Ref }) {
		return
	}
	c.tell()
}

// learn makes known what a row is that this process wrote after a time, so that its writer need not read all. A
// process that stood still since reads all: the lambda may have been deleted.
func (c *Catalog) learn(ctx context.Context, row store.Control, wrote time.Duration) (*Entry, error) {
	entry, err := decode(row)
	if err != nil {
		return nil, err
	}
	if !c.IsFresh(wrote) {
		return entry, c.Refresh(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.known.Load()
	if have := known.byRef[entry.Ref]; have != nil && have.Version >= entry.Version { // a read of all was faster
		return entry, nil
	}
	entry.noteRead(clock.Mono(c.clock), known.byName[entry.Name])
	entry.learned = c.reads.Add(1)
	c.known.Store(known.with(entry))
	c.tell()
	return entry, nil
}

// tell closes the channel of Changed. The caller holds c.mu.
func (c *Catalog) tell() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// Changed returns a channel that is closed at the next change of any lambda.
func (c *Catalog) Changed() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// Lambda finds a lambda by name; ErrUnknown when there is none.
func (c *Catalog) Lambda(name string) (*Entry, error) {
	if entry := c.known.Load().byName[name]; entry != nil {
		return entry, nil
	}
	if err := task.CheckName("lambda", name); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w %q: `kinesin lambda list` shows those there are, `kinesin lambda create` makes one", ErrUnknown, name)
}

// Find is Lambda for a lambda that another process may have created a moment ago: it reads the store before
// it answers that there is none, at most once every findEvery.
func (c *Catalog) Find(ctx context.Context, name string) (*Entry, error) {
	entry, err := c.Lambda(name)
	if !errors.Is(err, ErrUnknown) {
		return entry, err
	}
	if err := c.lookAgain(ctx); err != nil {
		return nil, err
	}
	return c.Lambda(name)
}

// FindRef is Find for a reference; nil when no lambda has it.
func (c *Catalog) FindRef(ctx context.Context, ref uint32) (*Entry, error) {
	if entry := c.ByRef(ref); entry != nil {
		return entry, nil
	}
	if err := c.lookAgain(ctx); err != nil {
		return nil, err
	}
	return c.ByRef(ref), nil
}

// lookAgain refreshes, unless a read began since the call, or another Find read less than findEvery ago.
// Other reads do not count for that: they may have been a moment before the lambda was created.
func (c *Catalog) lookAgain(ctx context.Context) error {
	asked := clock.Mono(c.clock)
	select { // no lock: the reader waits for the store, and callers that wait for the reader must be able to give up
	case c.finding <- struct{}{}:
		defer func() { <-c.finding }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if c.known.Load().began >= asked || asked < c.nextFind {
		return nil
	}
	c.nextFind = asked + findEvery
	return c.Refresh(ctx)
}

// Since returns the monotonic time of what is known here: when the newest read began.
func (c *Catalog) Since() time.Duration { return c.known.Load().began }

// IsFresh reports whether what was known since then may still be acted on.
func (c *Catalog) IsFresh(since time.Duration) bool { return clock.Mono(c.clock)-since <= FreshFor }

// ByRef finds a lambda by the reference in keys and ids; nil when there is none.
func (c *Catalog) ByRef(ref uint32) *Entry { return c.known.Load().byRef[ref] }

// All lists the lambdas by name.
func (c *Catalog) All() []*Entry { return c.known.Load().sorted }

// Partitions lists the partitions of all lambdas.
func (c *Catalog) Partitions() []task.Partition {
	known := c.known.Load()
	all := make([]task.Partition, 0, known.partitions)
	for _, entry := range known.sorted {
		all = append(all, entry.Partitions()...)
	}
	return all
}

// WithDefaults returns a lambda to be created with a default for each unset field. The default of the shards
// of one that exists is what it has.
func (c *Catalog) WithDefaults(want task.Lambda) task.Lambda {
	if want.Shards == 0 {
		want.Shards = c.ShardsDefault
		if have := c.known.Load().byName[want.Name]; have != nil {
			want.Shards = have.Shards
		}
	}
	return want.WithDefaults()
}

// Run refreshes until ctx ends.
func (c *Catalog) Run(ctx context.Context) error {
	defer c.isRunning.Store(false)
	for {
		c.lastTry.Store(int64(clock.Mono(c.clock)))
		c.isRunning.Store(true)
		if err := c.Refresh(ctx); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "cannot refresh lambdas", slog.Any("error", err))
		}
		c.cancelStaleDeletions(ctx)
		if clock.Sleep(ctx, c.clock, RefreshEvery) != nil {
			return nil
		}
	}
}

// Stalled returns how long ago Run last began to refresh. It does so every RefreshEvery if the store answers
// in time.
func (c *Catalog) Stalled() time.Duration {
	if !c.isRunning.Load() {
		return 0
	}
	return clock.Mono(c.clock) - time.Duration(c.lastTry.Load())
}

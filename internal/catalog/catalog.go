// Package catalog holds the lambdas this process knows: a cache of the store's
// control rows of kind "lambda", refreshed every few seconds and at once after
// a change made here. It owns creating, changing and deleting them. It never
// reads or writes tasks.
package catalog

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Kind is the kind of the control rows.
const Kind = "lambda"

// RefreshEvery is how soon a change made by another process is known here: so soon that its partitions are
// fired within 2 s.
const RefreshEvery = 1500 * time.Millisecond

// What others may rely on where several processes share a store.
const (
	// FreshFor is for how long what was read is acted on. Whoever has acted on something older, because the
	// store was slow or the process stood still, reads again before it says so: see Since.
	FreshFor = 4 * time.Second
	// SettledAfter is how long after a change nobody acts any more on what was before, and indexes show what
	// was written until then.
	SettledAfter = FreshFor + 2*time.Second
	// IDAheadMax is how far ahead of a server's clock an id may be that somebody else made: what AWS lets a
	// clock be off.
	IDAheadMax = 5 * time.Minute
	// GrownAfter is how long after it is written a new count of shards comes into force: when nobody acts any
	// more on what was before, and nobody has placed an id of then. A minute is for the write itself, for
	// what is acted on, and for the clocks of servers.
	GrownAfter = IDAheadMax + time.Minute
	// writeMax bounds the write of a row, and so how late after it was decided on it can be seen.
	writeMax = 10 * time.Second
	// findEvery is how often a name that is not known makes all lambdas be read again, at most.
	findEvery = 100 * time.Millisecond
)

const casTriesMax = 5

// Sentinels of the catalog.
var (
	// ErrUnknown says that no lambda has that name.
	ErrUnknown = errors.New("unknown lambda")
	// ErrExists refuses creating a lambda that exists with other settings.
	ErrExists = errors.New("lambda exists with other settings")
	// ErrDeleting refuses creating a lambda whose deletion has begun.
	ErrDeleting = errors.New("lambda is being deleted")
	// ErrChanged says that others kept changing the lambda at the same time.
	ErrChanged = errors.New("lambda was changed at the same time")
)

// Rows is what the catalog needs of a store.
type Rows interface {
	Control(ctx context.Context, kind, name string) (store.Control, error)
	Controls(ctx context.Context, kind string) ([]store.Control, error)
	PutControl(ctx context.Context, c store.Control) error
	DeleteControl(ctx context.Context, c store.Control) error
}

// Catalog answers from memory. It is safe for concurrent use; what it returns
// is shared and must not be changed.
type Catalog struct {
	// ShardsDefault is how many shards a new lambda has if nothing is said; 0: task.ShardsDefault. It is set
	// before anything is called.
	ShardsDefault uint16

	rows  Rows
	clock clock.Clock
	log   *slog.Logger

	known atomic.Pointer[snapshot]

	reads atomic.Uint64 // numbers the reads of the store
	runs  atomic.Bool   // Run does
	tried atomic.Int64  // when it last read, in monotonic time

	finding chan struct{} // holds a token while one Find reads; guards findNext
	// findNext is when the next one may read, in monotonic time.
	findNext time.Duration

	mu      sync.Mutex // guards the rest and orders publishing
	newest  uint64     // read that is published
	changed chan struct{}
}

type snapshot struct {
	began  time.Duration // monotonic time when its read began
	byName map[string]*Entry
	byRef  map[uint32]*Entry
	sorted []*Entry
}

// Entry is one lambda and the version of its row.
type Entry struct {
	task.Lambda
	Version uint64
	// Registration is the sum of the Registration that the settings were last taken from; empty when there
	// never was one.
	Registration string
	// Dropping, of a lambda that is being deleted: its tasks are to be dropped with it. Marked is when that
	// was last written.
	Dropping bool
	Marked   task.Instant

	row []byte // as it is stored, with fields that a newer version may have written

	// In monotonic time of this process:
	known  time.Duration // since when it knows this version
	marked time.Duration // since when it knows the lambda to be marked as being deleted, without a break
}

// New returns an empty catalog; Refresh or Run fills it.
func New(rows Rows, c clock.Clock, log *slog.Logger) *Catalog {
	cat := &Catalog{rows: rows, clock: c, log: log, findNext: clock.Mono(c), finding: make(chan struct{}, 1), changed: make(chan struct{})}
	cat.known.Store(&snapshot{})
	return cat
}

// Run refreshes until ctx ends.
func (c *Catalog) Run(ctx context.Context) error {
	defer c.runs.Store(false)
	for {
		c.tried.Store(int64(clock.Mono(c.clock)))
		c.runs.Store(true)
		if err := c.Refresh(ctx); err != nil && ctx.Err() == nil {
			c.log.WarnContext(ctx, "lambdas not refreshed", slog.Any("error", err))
		}
		c.takeBackStale(ctx)
		if clock.Sleep(ctx, c.clock, RefreshEvery) != nil {
			return nil
		}
	}
}

// Stalled is how long ago Run last began to refresh; it does every RefreshEvery, if the store answers in
// time.
func (c *Catalog) Stalled() time.Duration {
	if !c.runs.Load() {
		return 0
	}
	return clock.Mono(c.clock) - time.Duration(c.tried.Load())
}

// Refresh reads all lambdas from the store. When it returns, everything that was stored before it was called
// is known.
func (c *Catalog) Refresh(ctx context.Context) error {
	number, began := c.reads.Add(1), clock.Mono(c.clock)
	rows, err := c.rows.Controls(ctx, Kind)
	if err != nil {
		return fmt.Errorf("read lambdas: %w", err)
	}
	next := &snapshot{began: began, byName: make(map[string]*Entry, len(rows)), byRef: make(map[uint32]*Entry, len(rows))}
	known, now := c.known.Load(), clock.Mono(c.clock)
	for _, row := range rows {
		before := known.byName[row.Name]
		entry, err := decodeUnless(before, row)
		if err != nil {
			c.log.ErrorContext(ctx, "lambda row left alone", slog.String("lambda", row.Name), slog.Any("error", err))
			continue
		}
		if entry != before {
			entry.met(now, before)
		}
		next.byName[entry.Name] = entry
		next.byRef[entry.Ref] = entry
		next.sorted = append(next.sorted, entry)
	}
	slices.SortFunc(next.sorted, func(a, b *Entry) int { return strings.Compare(a.Name, b.Name) })
	c.publish(next, number)
	return nil
}

// publish makes next known, unless it was read before what is known already: a slow read must not
// take back a lambda that was created in between.
func (c *Catalog) publish(next *snapshot, number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if number < c.newest {
		return
	}
	c.newest = number
	old := c.known.Swap(next)
	if maps.EqualFunc(old.byName, next.byName, func(a, b *Entry) bool { return a.Version == b.Version && a.Ref == b.Ref }) {
		return
	}
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
	return nil, fmt.Errorf("%w %q: create it first", ErrUnknown, name)
}

// Find is Lambda for what may have been created in another process a moment ago: before it says that there is
// none, it looks in the store, though not for every caller.
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

// lookAgain refreshes, unless that was begun since it was asked to, or somebody looked less than findEvery
// ago. What was read for other reasons does not count: it may have been a moment before the lambda was
// created.
func (c *Catalog) lookAgain(ctx context.Context) error {
	asked := clock.Mono(c.clock)
	select { // not a lock: the one who looks waits for the store, and who waits for it must be able to give up
	case c.finding <- struct{}{}:
		defer func() { <-c.finding }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if c.known.Load().began >= asked || asked < c.findNext {
		return nil
	}
	c.findNext = asked + findEvery
	return c.Refresh(ctx)
}

// Since is the monotonic time since when what is known here is true, or was: when the newest read began.
func (c *Catalog) Since() time.Duration { return c.known.Load().began }

// IsFresh reports whether what was known since then may still be acted on.
func (c *Catalog) IsFresh(since time.Duration) bool { return clock.Mono(c.clock)-since <= FreshFor }

// ByRef finds a lambda by the reference in keys and ids; nil when there is none.
func (c *Catalog) ByRef(ref uint32) *Entry { return c.known.Load().byRef[ref] }

// All lists the lambdas by name.
func (c *Catalog) All() []*Entry { return c.known.Load().sorted }

// Partitions lists the partitions of all lambdas.
func (c *Catalog) Partitions() []task.Partition {
	var all []task.Partition
	for _, entry := range c.All() {
		all = append(all, entry.Partitions()...)
	}
	return all
}

// Create registers a lambda. Creating the same again is fine and reports existed; with
// other settings it is ErrExists. Unset fields get their defaults.
func (c *Catalog) Create(ctx context.Context, want task.Lambda) (entry *Entry, existed bool, err error) {
	return c.create(ctx, want, "")
}

func (c *Catalog) create(ctx context.Context, want task.Lambda, registration string) (entry *Entry, existed bool, err error) {
	for range 2 { // it may be created elsewhere in between
		if err := c.Refresh(ctx); err != nil {
			return nil, false, err
		}
		want = c.WithDefaults(want)
		if err := want.Validate(); err != nil {
			return nil, false, err
		}
		if entry := c.known.Load().byName[want.Name]; entry != nil {
			return entry, true, sameSettings(entry.Lambda, want)
		}
		want.Ref, want.Created = c.freeRef(), c.clock.Now()
		entry, err = c.put(ctx, &Entry{Lambda: want, Version: 1, Registration: registration})
		if !errors.Is(err, store.ErrConflict) {
			return entry, false, err
		}
	}
	return nil, false, fmt.Errorf("%w: %s is there in a form that this version cannot read, or was deleted at this moment", ErrChanged, want.Name)
}

// WithDefaults returns a lambda that is to be created with a default for each field that is not set. If it is
// there, how many shards it has is none of the caller's business.
func (c *Catalog) WithDefaults(want task.Lambda) task.Lambda {
	if want.Shards == 0 {
		want.Shards = c.ShardsDefault
		if have := c.known.Load().byName[want.Name]; have != nil {
			want.Shards = have.Shards
		}
	}
	return want.WithDefaults()
}

// GrownFrom is when a count of shards that is written now comes into force.
func (c *Catalog) GrownFrom() task.Instant { return c.clock.Now().Add(GrownAfter) }

// freeRef draws a reference no known lambda has; 0 is never one. One draw of billions has to be repeated.
func (c *Catalog) freeRef() uint32 {
	ref := uint32(c.clock.Uint64())
	for ref == 0 || c.ByRef(ref) != nil {
		ref++
	}
	return ref
}

func sameSettings(have, want task.Lambda) error {
	if have.Deleting {
		return fmt.Errorf("%w: %s; delete it again to finish that, then create it", ErrDeleting, have.Name)
	}
	want.Ref, want.Created, want.Deleting = have.Ref, have.Created, have.Deleting
	if have.HadShards(want.Shards) { // and they grew since
		want.Shards, want.ShardHistory = have.Shards, have.ShardHistory
	}
	if reflect.DeepEqual(have, want) {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrExists, describe(have))
}

func describe(l task.Lambda) string {
	return fmt.Sprintf("%s has mode %s, priorities %s, shards %d, max attempts %d, timeout %v, backoff %v..%v, retention %v",
		l.Name, l.Mode, strings.Join(l.Priorities, ","), l.Shards, l.MaxAttempts, l.Timeout, l.BackoffMin, l.BackoffMax, l.Retention)
}

// Update changes a lambda by compare-and-set; change edits a copy and may refuse. What it leaves as it is, is
// not written.
func (c *Catalog) Update(ctx context.Context, name string, change func(*task.Lambda) error) (*Entry, error) {
	return c.update(ctx, name, func(e *Entry) error { return change(&e.Lambda) })
}

func (c *Catalog) update(ctx context.Context, name string, change func(*Entry) error) (*Entry, error) {
	for range casTriesMax {
		if err := c.Refresh(ctx); err != nil {
			return nil, err
		}
		entry, err := c.Lambda(name)
		if err != nil {
			return nil, err
		}
		changed := *entry
		next := &changed
		next.Version++
		if err := change(next); err != nil {
			return nil, err
		}
		if err := next.Validate(); err != nil {
			return nil, err
		}
		if next.Registration == entry.Registration && next.Marked == entry.Marked && reflect.DeepEqual(next.Lambda, entry.Lambda) {
			return entry, nil
		}
		next, err = c.put(ctx, next)
		if !errors.Is(err, store.ErrConflict) {
			return next, err
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrChanged, name)
}

// Remove deletes a lambda's row as it was seen; ErrChanged when it was changed since. One that somebody else
// removed is removed. Its tasks are the caller's business.
func (c *Catalog) Remove(ctx context.Context, entry *Entry) error {
	gone, err := c.isGone(ctx, entry)
	if err == nil && !gone {
		err = c.rows.DeleteControl(ctx, store.Control{Kind: Kind, Name: entry.Name, Version: entry.Version})
		if errors.Is(err, store.ErrConflict) {
			gone, err = c.isGone(ctx, entry)
			if err == nil && !gone {
				return fmt.Errorf("%w: %s", ErrChanged, entry.Name)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("delete lambda %s: %w", entry.Name, err)
	}
	return c.Refresh(ctx)
}

// isGone looks in the store whether a lambda was removed. Versions begin anew when another is created of the
// same name, so that only its reference tells the two apart.
func (c *Catalog) isGone(ctx context.Context, entry *Entry) (bool, error) {
	row, err := c.rows.Control(ctx, Kind, entry.Name)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	now, err := decode(row)
	if err != nil {
		return false, err
	}
	return now.Ref != entry.Ref, nil
}

func (c *Catalog) put(ctx context.Context, entry *Entry) (*Entry, error) {
	row, err := encode(entry)
	if err != nil {
		return nil, err
	}
	within, cancel := clock.Within(ctx, c.clock, writeMax)
	defer cancel()
	if err := c.rows.PutControl(within, row); err != nil {
		return nil, fmt.Errorf("write lambda %s: %w", entry.Name, err)
	}
	return entry, c.Refresh(ctx)
}

// record is a lambda's row. A field that is absent means what its zero value means in task.Lambda.
type record struct {
	Ref         uint32        `json:"ref"`
	Mode        string        `json:"mode"`
	Priorities  []string      `json:"priorities"`
	Shards      uint16        `json:"shards"`
	MaxAttempts uint32        `json:"max_attempts"`
	Timeout     time.Duration `json:"timeout_ns"`
	BackoffMin  time.Duration `json:"backoff_min_ns"`
	BackoffMax  time.Duration `json:"backoff_max_ns"`
	Retention   time.Duration `json:"retention_ns"`
	Created     task.Instant  `json:"created_us"`
	Deleting    bool          `json:"deleting,omitempty"`

	ShardHistory []shardCount `json:"shard_history,omitempty"` // of a lambda whose shards grew

	Registration string `json:"registration,omitempty"`

	// Of a lambda that is being deleted. DroppingAt is the version of the row that says so first-hand: what
	// an older program writes over it keeps the field, and means nothing by it.
	DroppingAt uint64       `json:"dropping_at_version,omitempty"`
	Marked     task.Instant `json:"marked_us,omitempty"`
}

type shardCount struct {
	Count uint16       `json:"count"`
	From  task.Instant `json:"from_us"`
}

func encode(e *Entry) (store.Control, error) {
	var droppingAt uint64
	if e.Deleting && e.Dropping {
		droppingAt = e.Version
	}
	value, err := json.Marshal(record{
		Ref: e.Ref, Mode: e.Mode.String(), Priorities: e.Priorities, Shards: e.Shards, MaxAttempts: e.MaxAttempts,
		Timeout: e.Timeout, BackoffMin: e.BackoffMin, BackoffMax: e.BackoffMax, Retention: e.Retention,
		Created: e.Created, Deleting: e.Deleting, Registration: e.Registration, DroppingAt: droppingAt, Marked: e.Marked,
		ShardHistory: convert(e.ShardHistory, func(s task.ShardCount) shardCount { return shardCount(s) }),
	})
	if err == nil && e.row != nil {
		value, err = withUnknown(value, e.row)
	}
	return store.Control{Kind: Kind, Name: e.Name, Version: e.Version, Value: value}, err
}

// withUnknown adds to an encoded record the fields of an older one that record does not have: what a
// newer version wrote is kept when the row is changed here.
func withUnknown(value, older []byte) ([]byte, error) {
	kept, all := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if err := errors.Join(json.Unmarshal(older, &kept), json.Unmarshal(value, &all)); err != nil {
		return nil, err
	}
	for field := range reflect.TypeFor[record]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		delete(kept, name)
	}
	if len(kept) == 0 {
		return value, nil
	}
	maps.Copy(all, kept)
	return json.Marshal(all)
}

// decodeUnless spares the decoding of a row that is known.
func decodeUnless(known *Entry, row store.Control) (*Entry, error) {
	if known != nil && known.Version == row.Version && bytes.Equal(known.row, row.Value) {
		return known, nil
	}
	return decode(row)
}

func decode(row store.Control) (*Entry, error) {
	var r record
	if err := json.Unmarshal(row.Value, &r); err != nil {
		return nil, fmt.Errorf("%w: lambda %s: %w", store.ErrCorrupt, row.Name, err)
	}
	mode, err := task.ParseMode(r.Mode)
	if err != nil {
		return nil, err
	}
	l := task.Lambda{
		Name: row.Name, Ref: r.Ref, Mode: mode, Priorities: r.Priorities, Shards: r.Shards, MaxAttempts: r.MaxAttempts,
		Timeout: r.Timeout, BackoffMin: r.BackoffMin, BackoffMax: r.BackoffMax, Retention: r.Retention,
		Created: r.Created, Deleting: r.Deleting,
		ShardHistory: convert(r.ShardHistory, func(s shardCount) task.ShardCount { return task.ShardCount(s) }),
	}
	return &Entry{
		Lambda: l, Version: row.Version, Registration: r.Registration,
		Dropping: r.Deleting && r.DroppingAt == row.Version, Marked: r.Marked, row: row.Value,
	}, l.Validate()
}

func convert[From, To any](all []From, one func(From) To) []To {
	var converted []To
	for _, v := range all {
		converted = append(converted, one(v))
	}
	return converted
}

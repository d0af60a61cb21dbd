// Package store is the seam to what Kinesin remembers: wake-up rows, task
// rows, payloads and control rows. It is the truth; queues only carry copies.
//
// Store is what roles use: it validates, bounds, observes, and settles writes
// whose outcome is unknown. Driver is what implementers write; the suite in
// storetest says what they owe. Every write is conditional and atomic by itself,
// and one that is acknowledged survives a crash. The package never decides what
// happens to a task.
package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Limits of one call to a driver. Store splits longer lists.
const (
	ApplyMax      = 4096    // writes
	ApplyBytesMax = 4 << 20 // payload bytes in them
	ReadMax       = 4096    // rows of Tasks and Wakeups
	// ScanMax is the most rows a scan returns; asking for more is refused, since a caller
	// takes a short page for the last one.
	ScanMax = 8192
)

// Defaults of Config.
const (
	PayloadBytesMaxDefault  = 256 << 10
	PayloadInlineMaxDefault = 700
)

// ControlBytesMax bounds the value of a control row.
const ControlBytesMax = 256 << 10

// Config sets what is not the driver's business. The zero value of every field means its default.
type Config struct {
	PayloadBytesMax  int          // largest payload, in bytes; 256 KiB
	PayloadInlineMax int          // largest payload kept inside a task's row, in bytes; 700
	Clock            clock.Clock  // the machine's
	Logger           *slog.Logger // discards
	Observer         Observer     // none
}

// Observer is told what a Store did. A nil field is not called.
type Observer struct {
	// OpDone is called after every call: its kind ("apply", "tasks", "scan_schedule", ...; "settle" for
	// the reading back of unknown outcomes), the number of writes or rows asked for, how long
	// it took, and the call-wide error.
	OpDone func(kind string, ops int, took time.Duration, err error)
}

func (c Config) withDefaults() Config {
	c.PayloadBytesMax = cmp.Or(c.PayloadBytesMax, PayloadBytesMaxDefault)
	c.PayloadInlineMax = cmp.Or(c.PayloadInlineMax, PayloadInlineMaxDefault)
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Store is the store as roles see it. All methods are safe for concurrent use.
type Store struct {
	d   Driver
	cfg Config
}

// New puts a Store on a driver. Close closes both.
func New(d Driver, c Config) *Store { return &Store{d: d, cfg: c.withDefaults()} }

// PayloadBytesMax is the largest payload that is stored, in bytes.
func (s *Store) PayloadBytesMax() int { return s.cfg.PayloadBytesMax }

// PayloadInlineMax is the largest payload that may be in a task's own row, in bytes; a larger one
// goes to a payload row.
func (s *Store) PayloadInlineMax() int { return s.cfg.PayloadInlineMax }

// Apply performs conditional writes, each atomic by itself, and says of each what became of it: nil (applied
// and durable; with Op.Lazy durable soon), *ConflictError, ErrFull, ErrTooLarge, ErrMalformed, ErrSkipped
// when it follows one that does not hold, or ErrUnknown when it could not be found out; what follows a write
// with an unknown outcome is unknown too. results has an entry for every op whatever err is; err is the
// reason behind the unknown ones.
//
// A write whose outcome was unknown is read back. A row that is exactly as written counts as written by
// us, a row that is gone counts as deleted by us, and a row that has moved on is a conflict: so of
// two callers who write the same bytes at once under faults, both may be told that they did.
func (s *Store) Apply(ctx context.Context, ops []Op) (results []error, err error) {
	defer s.observe("apply", len(ops), clock.Steady(s.cfg.Clock), &err)
	refused := s.check(ops)
	if refused == nil {
		return s.apply(ctx, ops)
	}
	good, at := make([]Op, 0, len(ops)), make([]int, 0, len(ops))
	for i := range ops {
		if refused[i] == nil {
			good, at = append(good, ops[i]), append(at, i)
		}
	}
	answers, err := s.apply(ctx, good)
	for i, answer := range answers {
		refused[at[i]] = answer
	}
	return refused, err
}

// apply hands checked ops to the driver in parts it can take.
func (s *Store) apply(ctx context.Context, ops []Op) ([]error, error) {
	n := partLen(ops)
	if n == len(ops) {
		return s.applyPart(ctx, ops)
	}
	results := make([]error, 0, len(ops))
	var errs []error
	for len(ops) > 0 {
		n = partLen(ops)
		part, err := s.applyPart(ctx, ops[:n])
		results, errs = append(results, part...), append(errs, err)
		ops = ops[n:]
	}
	return results, errors.Join(errs...)
}

// partLen is how many of the first ops fit one call. It does not part ops that follow each other.
func partLen(ops []Op) int {
	size := 0
	for i := range ops {
		size += len(ops[i].Payload) + len(ops[i].Task.Payload) + len(ops[i].Control.Value)
		if i == ApplyMax || (i > 0 && size > ApplyBytesMax) {
			return chainEdge(ops, i)
		}
	}
	return len(ops)
}

// chainEdge is the last edge between chains at or before i, or the first one after it if that is the head of
// the list.
func chainEdge(ops []Op, i int) int {
	edge := i
	for edge > 0 && ops[edge].Follows {
		edge--
	}
	if edge > 0 {
		return edge
	}
	for i < len(ops) && ops[i].Follows {
		i++
	}
	return i
}

func (s *Store) applyPart(ctx context.Context, ops []Op) ([]error, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	results, err := s.d.Apply(ctx, ops)
	if err == nil && len(results) != len(ops) {
		err = fmt.Errorf("driver answered %d of %d writes", len(results), len(ops))
	}
	if err != nil {
		results = slices.Repeat([]error{ErrUnknown}, len(ops))
	}
	if !slices.ContainsFunc(results, isUnknown) {
		return results, nil
	}
	return results, s.settle(ctx, ops, results, err)
}

func isUnknown(err error) bool { return err != nil && errors.Is(err, ErrUnknown) }

// Tasks reads task rows, strongly consistent; a missing row has a zero ID in its place.
func (s *Store) Tasks(ctx context.Context, ids []task.ID) (rows []task.Task, err error) {
	defer s.observe("tasks", len(ids), clock.Steady(s.cfg.Clock), &err)
	return inParts(ctx, ids, s.d.Tasks)
}

// Task reads one task row, strongly consistent; ErrNotFound when there is none.
func (s *Store) Task(ctx context.Context, id task.ID) (task.Task, error) {
	rows, err := s.Tasks(ctx, []task.ID{id})
	if err != nil {
		return task.Task{}, err
	}
	if rows[0].ID.IsZero() {
		return task.Task{}, fmt.Errorf("task %s: %w", id, ErrNotFound)
	}
	return rows[0], nil
}

// Wakeups reads wake-up rows, strongly consistent; a missing row has a zero ID in its place.
func (s *Store) Wakeups(ctx context.Context, keys []WakeKey) (rows []task.Task, err error) {
	defer s.observe("wakeups", len(keys), clock.Steady(s.cfg.Clock), &err)
	return inParts(ctx, keys, s.d.Wakeups)
}

func inParts[K any](ctx context.Context, keys []K, read func(context.Context, []K) ([]task.Task, error)) ([]task.Task, error) {
	if len(keys) <= ReadMax {
		return read(ctx, keys)
	}
	rows := make([]task.Task, 0, len(keys))
	for part := range slices.Chunk(keys, ReadMax) {
		found, err := read(ctx, part)
		if err != nil {
			return nil, err
		}
		rows = append(rows, found...)
	}
	return rows, nil
}

// Payload reads a payload row; ErrNotFound when there is none.
func (s *Store) Payload(ctx context.Context, id task.ID) (payload []byte, err error) {
	defer s.observe("payload", 1, clock.Steady(s.cfg.Clock), &err)
	return s.d.Payload(ctx, id)
}

// ScanSchedule returns the first limit wake-up rows of a partition in order of (wake, id), strongly
// consistent, after the given key (zero: from the head) and with a wake at or before through. limit is at
// most ScanMax.
func (s *Store) ScanSchedule(ctx context.Context, p task.Partition, after WakeKey, through task.Instant, limit int) (rows []task.Task, err error) {
	defer s.observe("scan_schedule", limit, clock.Steady(s.cfg.Clock), &err)
	if err := checkLimit(limit); err != nil {
		return nil, err
	}
	return s.d.ScanSchedule(ctx, p, after, through, limit)
}

// ScanEnded pages over ended rows; see Driver.ScanEnded. limit is at most ScanMax.
func (s *Store) ScanEnded(ctx context.Context, p *task.Partition, state task.State, cursor []byte, limit int) (rows []task.Task, next []byte, err error) {
	defer s.observe("scan_ended", limit, clock.Steady(s.cfg.Clock), &err)
	if err := checkLimit(limit); err != nil {
		return nil, nil, err
	}
	if state != task.Unknown && !state.IsEnd() {
		return nil, nil, fmt.Errorf("%w scan: %s is not an end", ErrMalformed, state)
	}
	return s.d.ScanEnded(ctx, p, state, cursor, limit)
}

// Control reads one control row; ErrNotFound when there is none.
func (s *Store) Control(ctx context.Context, kind, name string) (row Control, err error) {
	defer s.observe("control", 1, clock.Steady(s.cfg.Clock), &err)
	if err := checkControlKey(kind, name); err != nil {
		return Control{}, err
	}
	rows, err := s.d.Controls(ctx, kind, name)
	if err != nil {
		return Control{}, err
	}
	if len(rows) == 0 {
		return Control{}, fmt.Errorf("%s %q: %w", kind, name, ErrNotFound)
	}
	return rows[0], nil
}

// Controls reads all control rows of a kind, in order of their names.
func (s *Store) Controls(ctx context.Context, kind string) (rows []Control, err error) {
	defer s.observe("controls", 1, clock.Steady(s.cfg.Clock), &err)
	if err := checkControlKey(kind, "any"); err != nil {
		return nil, err
	}
	return s.d.Controls(ctx, kind, "")
}

// ControlsOmitted is Controls, and why each row that is left out of them is, by name: ErrVersion or
// ErrCorrupt.
func (s *Store) ControlsOmitted(ctx context.Context, kind string) (rows []Control, omitted map[string]error, err error) {
	read := s.d.Capabilities().ControlsOmitted
	if read == nil { // such a driver leaves out none
		rows, err = s.Controls(ctx, kind)
		return rows, nil, err
	}
	defer s.observe("controls", 1, clock.Steady(s.cfg.Clock), &err)
	if err := checkControlKey(kind, "any"); err != nil {
		return nil, nil, err
	}
	return read(ctx, kind)
}

// PutControl stores a control row: Version 1 adds it, Version n+1 replaces version n.
func (s *Store) PutControl(ctx context.Context, c Control) error {
	return s.applyOne(ctx, Op{Kind: PutControl, Control: c})
}

// DeleteControl removes a control row that is still at c.Version.
func (s *Store) DeleteControl(ctx context.Context, c Control) error {
	return s.applyOne(ctx, Op{Kind: DeleteControl, Control: c})
}

func (s *Store) applyOne(ctx context.Context, op Op) error {
	results, err := s.Apply(ctx, []Op{op})
	if err != nil {
		return fmt.Errorf("%w: %w", results[0], err)
	}
	return results[0]
}

// Sweep deletes up to limit ended rows (with their payloads and wake-up rows) that expired at or before now,
// and says how many.
func (s *Store) Sweep(ctx context.Context, now task.Instant, limit int) (n int, err error) {
	defer s.observe("sweep", limit, clock.Steady(s.cfg.Clock), &err)
	if err := checkLimit(limit); err != nil {
		return 0, err
	}
	return s.d.Sweep(ctx, now, limit)
}

// Depths counts the live tasks by partition. ready is false while the counts are still being
// built after a start, and always when the driver keeps none.
func (s *Store) Depths() (counts map[task.Partition]Depth, ready bool) {
	if depths := s.d.Capabilities().Depths; depths != nil {
		return depths()
	}
	return nil, false
}

// PayloadsExpire reports whether payload rows go away by themselves some time after they are wanted, so that
// nobody needs to delete them.
func (s *Store) PayloadsExpire() bool { return s.d.Capabilities().PayloadsExpire }

// EndedExpire reports whether ended rows go away by themselves, without their wake-up rows.
func (s *Store) EndedExpire() bool { return s.d.Capabilities().EndedExpire }

// Full reports whether the store takes no new tasks for want of space.
func (s *Store) Full() bool {
	full := s.d.Capabilities().Full
	return full != nil && full()
}

// Health says what the driver knows of its own files; known is false when it has none.
func (s *Store) Health() (h Health, known bool) {
	if health := s.d.Capabilities().Health; health != nil {
		return health(), true
	}
	return Health{}, false
}

// Close closes the driver; what was acknowledged stays.
func (s *Store) Close() error { return s.d.Close() }

func (s *Store) observe(kind string, ops int, began task.Instant, err *error) {
	if s.cfg.Observer.OpDone != nil {
		s.cfg.Observer.OpDone(kind, ops, clock.Steady(s.cfg.Clock).Sub(began), *err)
	}
}

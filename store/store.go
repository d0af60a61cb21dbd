// Package store is the seam to durable state: wake-up rows, task rows, payloads and control rows. The store
// is the truth; queues only carry copies.
//
// Roles use Store, which validates calls, bounds them, observes them, and settles writes with an unknown
// outcome. Implementers write a Driver; the suite in storetest checks it. Every write is conditional and
// atomic by itself, and an acknowledged write survives a crash. The package never decides what happens to a
// task.
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
	// ScanMax is the most rows that a scan returns. A larger limit is refused, because callers take a short
	// page for the last one.
	ScanMax = 8192
)

// Defaults of Config.
const (
	PayloadBytesMaxDefault  = 256 << 10
	PayloadInlineMaxDefault = 700
)

// ControlBytesMax bounds the value of a control row.
const ControlBytesMax = 256 << 10

// Config configures a Store. The zero value of every field means its default.
type Config struct {
	PayloadBytesMax  int          // largest payload, in bytes; 256 KiB
	PayloadInlineMax int          // largest payload kept inside a task's row, in bytes; 700
	Clock            clock.Clock  // the machine's
	Logger           *slog.Logger // discards
	Observer         Observer     // none
}

// Observer holds callbacks. A nil one is not called.
type Observer struct {
	// OpDone is called after every call with its context, its kind ("apply", "tasks", "scan_schedule", ...;
	// "settle" for reading back unknown outcomes), the number of writes or rows asked for, which is 0 if no
	// request was sent, how long it took, and the call-wide error.
	OpDone func(ctx context.Context, kind string, ops int, took time.Duration, err error)
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

// Store reads and writes rows for roles. All methods are safe for concurrent use.
type Store struct {
	d   Driver
	can Capabilities
	cfg Config
}

// New puts a Store on a driver. Close closes both.
func New(d Driver, c Config) *Store {
	return &Store{d: d, can: d.Capabilities(), cfg: c.withDefaults()}
}

// PayloadBytesMax returns the size of the largest payload, in bytes.
func (s *Store) PayloadBytesMax() int { return s.cfg.PayloadBytesMax }

// PayloadInlineMax returns the size of the largest payload inside a task's row, in bytes. A larger one goes
// to a payload row.
func (s *Store) PayloadInlineMax() int { return s.cfg.PayloadInlineMax }

// Apply performs conditional writes, each atomic by itself, and returns a result for each: nil (applied and
// durable; with Op.Lazy durable soon), *ConflictError, ErrFull, ErrTooLarge, ErrMalformed, ErrSkipped when it
// follows a write that does not hold, or ErrUnknown when its outcome could not be found out. A write that
// follows an unknown write is unknown too. results has an entry for every op even if err is not nil; err is
// the reason for the unknown ones.
//
// Apply reads back writes with an unknown outcome. A row that is exactly as written counts as written by this
// call, a row that is gone as deleted by it, and any other row is a conflict. So two callers that write the
// same bytes at the same time may, under faults, both be told that they did.
func (s *Store) Apply(ctx context.Context, ops []Op) (results []error, err error) {
	defer s.observe(ctx, "apply", len(ops), clock.Steady(s.cfg.Clock), &err)
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

// Writer writes rows, as Store does.
type Writer interface {
	Apply(ctx context.Context, ops []Op) ([]error, error)
}

// Outcomes performs writes and returns the outcome of each. It is valid by itself, also when others are
// unknown; an error of the whole call is the outcome of those that have none.
func Outcomes(ctx context.Context, w Writer, ops []Op) []error {
	outcomes, err := w.Apply(ctx, ops)
	for len(outcomes) < len(ops) {
		outcomes = append(outcomes, err)
	}
	return outcomes
}

// apply passes checked ops to the driver in parts within its limits.
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

// partLen returns how many of the first ops fit into one call. It does not separate ops that follow each
// other.
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

// chainEdge returns the last edge between chains at or before i. If that is the head of the list, it returns
// the first edge after i.
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

// Tasks reads task rows, strongly consistent; a missing row has a zero ID in its place. A row that cannot be
// read has an ID and no state; if it alone was asked for, it is an error for which IsUnreadable holds.
func (s *Store) Tasks(ctx context.Context, ids []task.ID) (rows []task.Task, err error) {
	defer s.observe(ctx, "tasks", len(ids), clock.Steady(s.cfg.Clock), &err)
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
	defer s.observe(ctx, "wakeups", len(keys), clock.Steady(s.cfg.Clock), &err)
	return inParts(ctx, keys, s.d.Wakeups)
}

func inParts[K any](ctx context.Context, keys []K, read func(context.Context, []K) ([]task.Task, error)) ([]task.Task, error) {
	if len(keys) <= ReadMax {
		return read(ctx, keys)
	}
	rows := make([]task.Task, 0, len(keys))
	for len(keys) > 0 {
		n := min(len(keys), ReadMax)
		if len(keys) == n+1 {
			n-- // a row that is read alone and cannot be read would fail all
		}
		found, err := read(ctx, keys[:n])
		if err != nil {
			return nil, err
		}
		rows, keys = append(rows, found...), keys[n:]
	}
	return rows, nil
}

// Payload reads a payload row; ErrNotFound when there is none.
func (s *Store) Payload(ctx context.Context, id task.ID) (payload []byte, err error) {
	defer s.observe(ctx, "payload", 1, clock.Steady(s.cfg.Clock), &err)
	return s.d.Payload(ctx, id)
}

// ScanSchedule returns the first limit wake-up rows of a partition in order of (wake, id), strongly
// consistent, after the given key (zero: from the head) and with a wake at or before through. limit is at
// most ScanMax.
func (s *Store) ScanSchedule(ctx context.Context, p task.Partition, after WakeKey, through task.Instant, limit int) (rows []task.Task, err error) {
	defer s.observe(ctx, "scan_schedule", limit, clock.Steady(s.cfg.Clock), &err)
	if err := checkLimit(limit); err != nil {
		return nil, err
	}
	return s.d.ScanSchedule(ctx, p, after, through, limit)
}

// ScanEnded pages over ended rows; see Driver.ScanEnded. limit is at most ScanMax.
func (s *Store) ScanEnded(ctx context.Context, p *task.Partition, state task.State, cursor []byte, limit int) (rows []task.Task, next []byte, err error) {
	defer s.observe(ctx, "scan_ended", limit, clock.Steady(s.cfg.Clock), &err)
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
	defer s.observe(ctx, "control", 1, clock.Steady(s.cfg.Clock), &err)
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
	defer s.observe(ctx, "controls", 1, clock.Steady(s.cfg.Clock), &err)
	if err := checkControlKey(kind, "any"); err != nil {
		return nil, err
	}
	return s.d.Controls(ctx, kind, "")
}

// ControlsOmitted is Controls that leaves out rows it cannot read, and returns the reason for each by name:
// ErrVersion or ErrCorrupt.
func (s *Store) ControlsOmitted(ctx context.Context, kind string) (rows []Control, omitted map[string]error, err error) {
	read := s.can.ControlsOmitted
	if read == nil { // the driver leaves out none
		rows, err = s.Controls(ctx, kind)
		return rows, nil, err
	}
	defer s.observe(ctx, "controls", 1, clock.Steady(s.cfg.Clock), &err)
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

// Sweep deletes up to limit ended rows that expired at or before now, with their payloads and wake-up rows,
// and returns how many.
func (s *Store) Sweep(ctx context.Context, now task.Instant, limit int) (n int, err error) {
	ops := limit
	if s.EndedExpire() {
		ops = 0 // the driver sends no request, so that the call does not show that it answers
	}
	defer s.observe(ctx, "sweep", ops, clock.Steady(s.cfg.Clock), &err)
	if err := checkLimit(limit); err != nil {
		return 0, err
	}
	return s.d.Sweep(ctx, now, limit)
}

// Depths counts the live tasks by partition. ready is false while the driver still counts after a start, and
// always when it keeps no counts.
func (s *Store) Depths() (counts map[task.Partition]Depth, ready bool) {
	if depths := s.can.Depths; depths != nil {
		return depths()
	}
	return nil, false
}

// PayloadsExpire reports whether payload rows expire by themselves, so that nobody needs to delete them.
func (s *Store) PayloadsExpire() bool { return s.can.PayloadsExpire }

// EndedExpire reports whether ended rows expire by themselves, without their wake-up rows.
func (s *Store) EndedExpire() bool { return s.can.EndedExpire }

// Full reports whether the store has no space for new tasks.
func (s *Store) Full() bool {
	full := s.can.Full
	return full != nil && full()
}

// Health returns the state of the driver's files; known is false when it has none.
func (s *Store) Health() (h Health, known bool) {
	if health := s.can.Health; health != nil {
		return health(), true
	}
	return Health{}, false
}

// Close closes the driver; what was acknowledged stays.
func (s *Store) Close() error { return s.d.Close() }

func (s *Store) observe(ctx context.Context, kind string, ops int, began task.Instant, err *error) {
	if s.cfg.Observer.OpDone != nil {
		s.cfg.Observer.OpDone(ctx, kind, ops, clock.Steady(s.cfg.Clock).Sub(began), *err)
	}
}

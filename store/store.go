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
	"log/slog"
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
	c.Clock = cmp.Or(c.Clock, clock.Real())
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
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

// Snapshot takes a snapshot; nil when the driver takes none. The caller closes it.
func (s *Store) Snapshot(ctx context.Context) (Snapshot, error) {
	take := s.can.Snapshot
	if take == nil {
		return nil, nil //nolint:nilnil // there is none, which is no failure
	}
	return take(ctx)
}

// Close closes the driver; what was acknowledged stays.
func (s *Store) Close() error { return s.d.Close() }

func (s *Store) observe(ctx context.Context, kind string, ops int, began task.Instant, err *error) {
	if s.cfg.Observer.OpDone != nil {
		s.cfg.Observer.OpDone(ctx, kind, ops, clock.Steady(s.cfg.Clock).Sub(began), *err)
	}
}

package lease

import (
	"context"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	casTriesMax  = 8
	openTriesMax = 4
	// knownMax bounds the leases that are cached between heartbeats; a miss costs a read.
	knownMax = 16384

	nameDefault = "worker"
	suffixChars = 10 // 50 random bits
)

// Rows is what a Book needs of a store.
type Rows = store.ControlRows

// Book reads and changes leases. It caches each lease that it changed, so that a heartbeat costs one write
// and no read. It is safe for concurrent use.
type Book struct {
	rows    Rows
	clock   clock.Clock
	lasting bool // every lease is of LengthLasting

	mu    sync.Mutex             // guards what follows; never held across I/O
	known map[string]Lease       // as last written or read here; may be stale
	clear map[string][]task.ID   // suspects to take off the row with its next change
	seen  map[string]observation // of the newest heartbeat of each worker
}

// NewBook returns a book over the rows of a store.
func NewBook(rows Rows, c clock.Clock) *Book {
	return &Book{rows: rows, clock: c, known: map[string]Lease{}, clear: map[string][]task.ID{}, seen: map[string]observation{}}
}

// NewLastingBook returns a book whose leases outlast every test, for virtual time, which jumps over
// heartbeats. All its leases have LengthLasting, whatever length Open is given; that must still be within the
// limits.
func NewLastingBook(rows Rows, c clock.Clock) *Book {
	b := NewBook(rows, c)
	b.lasting = true
	return b
}

// Open begins a lease under a new id made of name, version and random characters, for a worker of an identity
// and for some lambdas; none, or more than LambdasMax, mean any. Length zero means the default; a length
// outside the limits is task.ErrInvalid.
func (b *Book) Open(ctx context.Context, name, version string, length time.Duration, owner string, lambdas []string) (Lease, error) {
	covered := strings.Join(lambdas, ",")
	if len(lambdas) > LambdasMax {
		covered = ""
	}
	length, err := CheckLength(length)
	if err != nil {
		return Lease{}, err
	}
	if b.lasting {
		length = LengthLasting
	}
	for range openTriesMax {
		l := Lease{
			Worker: b.newID(name, version), Name: printable(name), Owner: owner, Lambdas: covered, Version: 1, Length: length, Receipt: b.clock.Now(), Beat: 1, Heard: clock.Steady(b.clock),
		}
		l.Came = l.Heard
		err = b.put(ctx, &l)
		if !errors.Is(err, store.ErrConflict) {
			return l, err
		}
	}
	return Lease{}, fmt.Errorf("open a worker lease: %w", err)
}

// Renew notes a heartbeat received now. It returns ErrLost when the lease has ended. A lease that ran out and
// was not marked lost is renewed, because nobody acted on it.
func (b *Book) Renew(ctx context.Context, worker string) (Lease, error) {
	now, heard := b.clock.Now(), clock.Steady(b.clock)
	return b.change(ctx, worker, func(l *Lease) {
		l.Receipt, l.Heard, l.Came = max(l.Receipt, now), heard, heard
		l.Silent, l.SilentBefore = 0, 0
		l.Beat++ // so that others see the heartbeat although the receipt may lie in the future
	})
}

// Attend asks the server that takes the worker's next heartbeat to read the rows of all tasks that the worker
// runs: one of them says something that the worker must learn. It returns ErrLost when the lease has ended.
func (b *Book) Attend(ctx context.Context, worker string) error {
	_, err := b.change(ctx, worker, func(l *Lease) { l.Attend++ })
	return err
}

// SetSuspect writes the one suspect that the process is about to run on the lease. It returns ErrLost when
// the lease has ended. Only after it has returned nil may the suspect be claimed.
func (b *Book) SetSuspect(ctx context.Context, worker string, id task.ID) error {
	b.mu.Lock()
	delete(b.clear, worker)
	b.mu.Unlock()
	_, err := b.change(ctx, worker, func(l *Lease) { l.Suspect = id })
	return err
}

// DropSuspect takes the suspect off the lease, if it still names it, at once: only after it has returned nil
// may anything begin beside the suspect. It returns ErrLost when the lease has ended.
func (b *Book) DropSuspect(ctx context.Context, worker string, id task.ID) error {
	_, err := b.change(ctx, worker, func(l *Lease) {
		if l.Suspect == id {
			l.Suspect = task.ID{}
		}
	})
	return err
}

// ClearSuspect takes the suspect off the lease with the lease's next change. It does no I/O. Until then the
// row names a task that the process does not run any more, which is harmless.
func (b *Book) ClearSuspect(worker string, id task.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.clear) < knownMax && len(b.clear[worker]) < casTriesMax {
		b.clear[worker] = append(b.clear[worker], id)
	}
}

// Look reads a lease from the store. For a worker without a row it returns a lease that is Lost, with Version
// 0.
func (b *Book) Look(ctx context.Context, worker string) (Lease, error) {
	row, err := b.rows.Control(ctx, Kind, worker)
	if errors.Is(err, store.ErrNotFound) {
		b.leave(worker)
		return Lease{Worker: worker, Lost: true}, nil
	}
	if err != nil {
		return Lease{}, fmt.Errorf("read the lease of worker %s: %w", worker, err)
	}
	l, err := b.read(&row)
	if err == nil {
		b.remember(l)
	}
	return l, err
}

// MarkLost ends a lease as Look returned it. It returns store.ErrConflict when the lease was changed since,
// because a heartbeat wins. A lease without a row stays as it is.
func (b *Book) MarkLost(ctx context.Context, seen Lease) error {
	if seen.Version == 0 {
		return nil
	}
	seen.Version++
	seen.Lost = true
	if err := b.put(ctx, &seen); err != nil {
		return fmt.Errorf("mark worker %s lost: %w", seen.Worker, err)
	}
	return nil
}

// Leave ends the lease of a process that gave everything back, by deleting its row. A lease that has ended
// already is fine; one that was marked lost keeps its row, by which its tasks are judged.
func (b *Book) Leave(ctx context.Context, worker string) error {
	for range casTriesMax {
		l, err := b.Look(ctx, worker)
		if err != nil || l.Lost {
			return err
		}
		err = b.rows.DeleteControl(ctx, store.Control{Kind: Kind, Name: worker, Version: l.Version})
		if !errors.Is(err, store.ErrConflict) {
			b.leave(worker)
			return err
		}
		b.forget(worker)
	}
	return fmt.Errorf("%w: %s", ErrBusy, worker)
}

// List reads all leases, in order of their ids, including those that have ended and are not swept.
func (b *Book) List(ctx context.Context) ([]Lease, error) {
	rows, err := b.rows.Controls(ctx, Kind)
	if err != nil {
		return nil, fmt.Errorf("read worker leases: %w", err)
	}
	leases := make([]Lease, 0, len(rows))
	for i := range rows {
		l, err := b.read(&rows[i])
		if err != nil {
			return nil, err
		}
		leases = append(leases, l)
	}
	return leases, nil
}

// Sweep deletes the rows of leases that ended more than KeptAfterEnd ago, and returns how many. Because the
// wall clock may have been set forward a day, it keeps a lease that is not lost as long as a heartbeat was
// seen here within the lease's length.
func (b *Book) Sweep(ctx context.Context) (int, error) {
	leases, err := b.List(ctx)
	if err != nil {
		return 0, err
	}
	now, steady, swept := b.clock.Now(), clock.Steady(b.clock), 0
	for i := range leases {
		l := &leases[i]
		if now < l.End().Add(KeptAfterEnd) || !l.Lost && steady < l.HoldsUntil().Add(task.ClockBound) {
			continue
		}
		err := b.rows.DeleteControl(ctx, store.Control{Kind: Kind, Name: l.Worker, Version: l.Version})
		if err != nil && !errors.Is(err, store.ErrConflict) {
			return swept, fmt.Errorf("sweep the lease of worker %s: %w", l.Worker, err)
		}
		b.leave(l.Worker)
		if err == nil {
			swept++
		}
	}
	return swept, nil
}

// change edits a lease by compare-and-set, beginning with the cached one.
func (b *Book) change(ctx context.Context, worker string, edit func(*Lease)) (Lease, error) {
	l, err := b.recall(ctx, worker)
	for range casTriesMax {
		if err != nil {
			return Lease{}, err
		}
		if l.Lost {
			b.forget(worker)
			return l, fmt.Errorf("%w: %s", ErrLost, worker)
		}
		next := l
		next.Version++
		cleared := b.withoutCleared(&next)
		edit(&next)
		err = b.put(ctx, &next)
		if err == nil {
			b.done(worker, cleared)
			return next, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			return Lease{}, err
		}
		l, err = b.after(ctx, worker, err)
	}
	return Lease{}, fmt.Errorf("%w: %s", ErrBusy, worker)
}

// after returns the lease as the conflict showed it, or as it is read now.
func (b *Book) after(ctx context.Context, worker string, conflict error) (Lease, error) {
	if seen, ok := errors.AsType[*store.ConflictError](conflict); ok && seen.Control != nil {
		return b.read(seen.Control)
	}
	return b.Look(ctx, worker)
}

// put writes a lease whose version is the new one.
func (b *Book) put(ctx context.Context, l *Lease) error {
	row, err := encode(l)
	if err != nil {
		return err
	}
	if err := b.rows.PutControl(ctx, row); err != nil {
		b.forget(l.Worker)
		return fmt.Errorf("write the lease of worker %s: %w", l.Worker, err)
	}
	b.remember(*l)
	b.observe(l)
	return nil
}

func (b *Book) recall(ctx context.Context, worker string) (Lease, error) {
	b.mu.Lock()
	l, found := b.known[worker]
	b.mu.Unlock()
	if found {
		return l, nil
	}
	return b.Look(ctx, worker)
}

func (b *Book) remember(l Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	have, found := b.known[l.Worker]
	switch {
	case found && have.Version > l.Version:
		return
	case !found && len(b.known) >= knownMax:
		for worker := range b.known { // any will do: a miss costs one read
			delete(b.known, worker)
			break
		}
	}
	b.known[l.Worker] = l
}

func (b *Book) forget(worker string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.known, worker)
}

// leave forgets all about a worker whose lease has ended.
func (b *Book) leave(worker string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.known, worker)
	delete(b.seen, worker)
}

// withoutCleared takes a suspect that ClearSuspect named off the lease, and returns how many it named.
func (b *Book) withoutCleared(l *Lease) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range b.clear[l.Worker] {
		if l.Suspect == id {
			l.Suspect = task.ID{}
		}
	}
	return len(b.clear[l.Worker])
}

// done forgets the n oldest requests to clear, which are on the row now.
func (b *Book) done(worker string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if left := b.clear[worker][min(n, len(b.clear[worker])):]; len(left) > 0 {
		b.clear[worker] = left
		return
	}
	delete(b.clear, worker)
}

// newID returns the readable name and enough random characters to be unique.
func (b *Book) newID(name, version string) string {
	var bits [8]byte
	binary.BigEndian.PutUint64(bits[:], b.clock.Uint64())
	suffix := base32.HexEncoding.EncodeToString(bits[:])[:suffixChars]
	if version != "" {
		version = printable(version)
		version = version[:min(len(version), task.WorkerVersionBytesMax)]
	}
	return task.WorkerID(printable(name), version, strings.ToLower(suffix))
}

// printable replaces characters that are hard to read in logs or unsafe in names, and bounds the length.
func printable(name string) string {
	kept := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_', r == '.':
			return r
		}
		return '-'
	}, name)
	if kept = kept[:min(len(kept), NameBytesMax)]; kept != "" {
		return kept
	}
	return nameDefault
}

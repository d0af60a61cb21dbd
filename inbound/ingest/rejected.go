package ingest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Limits of what is kept as rejected. Every process counts for itself, and again every countEvery, so that
// several together may exceed them a little.
const (
	RejectedMaxDefault      = 10_000
	RejectedBytesMaxDefault = 256 << 20
	// RejectedNamesMax is how many one call retries or deletes at most.
	RejectedNamesMax = api.RejectedMax

	// A named sender takes at most one part in so many of the room for rejected tasks, and all named senders
	// together at most one in so many: senders are not trusted to leave room for others.
	senderParts  = 10
	sendersParts = 2

	countEvery = time.Minute
)

// Why a rejected task is not kept.
var (
	errFull       = errors.New("no room for more rejected tasks: retry or delete some with `kinesin inbound rejected`")
	errSenderFull = errors.New("no room for more rejected tasks of senders: retry or delete some with `kinesin inbound rejected`")
)

var errNoSuchRejected = api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "nothing rejected has that name: `kinesin inbound rejected list` shows the names")

// ControlStore is what Rejected needs of a store.
type ControlStore interface {
	store.Writer
	Control(ctx context.Context, kind, name string) (store.Control, error)
	Controls(ctx context.Context, kind string) ([]store.Control, error)
}

// RejectedConfig is what a Rejected is made of.
type RejectedConfig struct {
	*intake.Intake
	Store ControlStore
	// Beyond these limits messages stay in the buffer. 0: RejectedMaxDefault, RejectedBytesMaxDefault.
	Max      int
	BytesMax int64
	// Kept: a message of the buffer, or a task, was rejected for one of Reasons. nil: it is not called.
	Kept func(ctx context.Context, reason string, err error)
}

// Rejected keeps messages and tasks that Kinesin will not take in by itself, until a person retries or
// deletes them: a message that can never be taken, and a task that may have run already. It is safe for
// concurrent use.
type Rejected struct {
	RejectedConfig

	mu      sync.Mutex // guards the rest
	counted task.Instant
	taken   room            // by all
	senders room            // by all named senders
	sender  map[string]room // by each; bounded by what is kept
}

// room is how many rows, and bytes of their bodies, rejected tasks take.
type room struct {
	rows  int
	bytes int64
}

func (a room) add(b room) room { return room{max(0, a.rows+b.rows), max(0, a.bytes+b.bytes)} }

// part returns one part in n, and never less than one row.
func (a room) part(n int) room { return room{max(1, a.rows/n), max(1, a.bytes/int64(n))} }

// holds reports whether b fits into a.
func (a room) holds(b room) bool { return b.rows <= a.rows && b.bytes <= a.bytes }

// NewRejected returns a Rejected.
func NewRejected(c RejectedConfig) *Rejected {
	c.Max = cmp.Or(c.Max, RejectedMaxDefault)
	c.BytesMax = cmp.Or(c.BytesMax, RejectedBytesMaxDefault)
	return &Rejected{RejectedConfig: c}
}

func (r *Rejected) tell(ctx context.Context, row *rejectedRow, why error) {
	if r.Kept != nil {
		r.Kept(ctx, row.Reason, why)
	}
}

// put writes a row and its body. A row of that name that exists is the same one.
func (r *Rejected) put(ctx context.Context, row *rejectedRow) error {
	_, err := r.putAll(ctx, []*rejectedRow{row})
	return err
}

// putAll writes rows until there is no room for one more, and returns how many.
func (r *Rejected) putAll(ctx context.Context, rows []*rejectedRow) (n int, err error) {
	var bodies, heads []store.Op
	var full error
	for _, row := range rows {
		if full = r.reserve(ctx, row.Sender, len(row.body)); full != nil {
			break
		}
		row.At, row.Bytes = r.Clock.Now(), len(row.body)
		name := nameOf(row)
		for part := range slices.Chunk(row.body, partBytes) {
			bodies = append(bodies, control(store.PutControl, bodyKind, partName(name, row.Parts), 1, part))
			row.Parts++
		}
		value, err := json.Marshal(row)
		if err != nil {
			return 0, fmt.Errorf("encode a rejected task: %w", err)
		}
		heads = append(heads, control(store.PutControl, rejectedKind, name, 1, value))
	}
	if err := r.applyAll(ctx, bodies); err != nil {
		return 0, err
	}
	if err := r.applyAll(ctx, heads); err != nil {
		return 0, err
	}
	return len(heads), full
}

// applyAll makes writes each of which may have been made before.
func (r *Rejected) applyAll(ctx context.Context, ops []store.Op) error {
	if len(ops) == 0 {
		return nil
	}
	results := store.Outcomes(ctx, r.Store, ops)
	for k := range ops {
		if err := results[k]; err != nil && !errors.Is(err, store.ErrConflict) {
			return fmt.Errorf("%s %q: %w", ops[k].Control.Kind, ops[k].Control.Name, err)
		}
	}
	return nil
}

// reserve makes room for one more row, of a named sender or of none, or fails with errFull or errSenderFull.
func (r *Rejected) reserve(ctx context.Context, sender string, size int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := clock.Steady(r.Clock); r.counted.IsZero() || now >= r.counted.Add(countEvery) {
		rows, err := r.all(ctx)
		if err != nil {
			return err
		}
		r.counted, r.taken, r.senders, r.sender = now, room{}, room{}, map[string]room{}
		for i := range rows {
			r.count(rows[i].Sender, room{1, int64(rows[i].Bytes)})
		}
	}
	if err := r.fits(sender, room{1, int64(size)}); err != nil {
		return err
	}
	r.count(sender, room{1, int64(size)})
	return nil
}

// fits returns errFull or errSenderFull if there is no room for one more row. r.mu is held.
func (r *Rejected) fits(sender string, one room) error {
	all := room{r.Max, r.BytesMax}
	switch {
	case !all.holds(r.taken.add(one)):
		return errFull
	case sender == "":
		return nil
	case !all.part(senderParts).holds(r.sender[sender].add(one)), !all.part(sendersParts).holds(r.senders.add(one)):
		return errSenderFull
	}
	return nil
}

// count notes that rows came, or went. r.mu is held, or nobody else has r.
func (r *Rejected) count(sender string, change room) {
	r.taken = r.taken.add(change)
	if sender == "" {
		return
	}
	r.senders = r.senders.add(change)
	if r.sender == nil {
		r.sender = map[string]room{}
	}
	if left := r.sender[sender].add(change); left.rows > 0 {
		r.sender[sender] = left
	} else {
		delete(r.sender, sender)
	}
}

// all reads every row in the order of names, without the bodies.
func (r *Rejected) all(ctx context.Context) ([]rejectedRow, error) {
	controls, err := r.Store.Controls(ctx, rejectedKind)
	if err != nil {
		return nil, fmt.Errorf("list what is rejected: %w", err)
	}
	rows := make([]rejectedRow, len(controls))
	for i, c := range controls {
		rows[i] = rowOf(c)
	}
	return rows, nil
}

// read reads a row with its body.
func (r *Rejected) read(ctx context.Context, name string) (rejectedRow, error) {
	if name == "" {
		return rejectedRow{}, errNoSuchRejected
	}
	c, err := r.Store.Control(ctx, rejectedKind, name)
	if errors.Is(err, store.ErrNotFound) {
		return rejectedRow{}, errNoSuchRejected
	}
	if err != nil {
		return rejectedRow{}, err
	}
	row := rowOf(c)
	for n := range row.Parts {
		part, err := r.Store.Control(ctx, bodyKind, partName(name, n))
		if errors.Is(err, store.ErrNotFound) {
			row.body = nil
			break // it is being deleted
		}
		if err != nil {
			return row, err
		}
		row.body = append(row.body, part.Value...)
	}
	return row, nil
}

// delete deletes a row. Its body goes first, so that no part is left that no row names.
func (r *Rejected) delete(ctx context.Context, row *rejectedRow) error {
	var ops []store.Op
	for n := range row.Parts {
		ops = append(ops, control(store.DeleteControl, bodyKind, partName(row.name, n), 1, nil))
	}
	if err := r.applyAll(ctx, ops); err != nil {
		return err
	}
	if err := r.applyAll(ctx, []store.Op{control(store.DeleteControl, rejectedKind, row.name, row.version, nil)}); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count(row.Sender, room{-1, -int64(row.Bytes)})
	return nil
}

// noteRetry notes that a retry failed, and why; an error of the note does no harm.
func (r *Rejected) noteRetry(ctx context.Context, row *rejectedRow, failed result) {
	next := *row
	next.Retries++
	if failed.outcome == rejected {
		next.Reason, next.Text = failed.reason, plainText(failed.err.Error())
	}
	if value, err := json.Marshal(next); err == nil {
		_ = r.applyAll(ctx, []store.Op{control(store.PutControl, rejectedKind, row.name, row.version+1, value)})
	}
}

// staleRowsMax bounds how many tasks SetAside keeps in one write, with their payloads.
const staleRowsMax = 16

// SetAside keeps tasks that wake-up rows hold and that may have run though no row tells. It returns how many,
// from the first on. They are kept as if they had come through the buffer, so that a retry takes them in.
func (r *Rejected) SetAside(ctx context.Context, tasks []task.Task) (n int, err error) {
	for chunk := range slices.Chunk(tasks, staleRowsMax) {
		rows := make([]*rejectedRow, len(chunk))
		whys := make([]error, len(chunk))
		for i := range chunk {
			if rows[i], whys[i], err = r.stale(ctx, &chunk[i]); err != nil {
				return n, err
			}
		}
		kept, err := r.putAll(ctx, rows)
		for i := range kept {
			r.tell(ctx, rows[i], whys[i])
		}
		if n += kept; err != nil {
			return n, err
		}
	}
	return n, nil
}

// stale returns the row of a task that may have run, and why it is rejected. If its payload is gone, the row
// can only be deleted.
func (r *Rejected) stale(ctx context.Context, t *task.Task) (row *rejectedRow, why, err error) {
	l := r.Catalog.ByRef(t.Partition.Lambda)
	if l == nil || int(t.Partition.Priority) >= len(l.Priorities) {
		return nil, nil, fmt.Errorf("task %s: %w", t.ID, catalog.ErrUnknown)
	}
	why = &staleError{fmt.Sprintf("no scheduler ran for longer than %v, for which its lambda keeps ended tasks: it may have run already; "+
		"a retry runs it", max(l.Retention, task.EndedMin))}
	payload, err := r.Payload(ctx, t)
	gone := errors.Is(err, store.ErrNotFound)
	if err != nil && !gone {
		return nil, nil, err
	}
	row = rejectedTask(r.BufferedTask(l, t, payload), result{rejected, ReasonStale, why})
	if gone {
		row.body = nil
	}
	return row, why, nil
}

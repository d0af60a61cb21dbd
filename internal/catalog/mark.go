package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// A lambda that is being deleted is marked in its row, so that no process takes new tasks for it. Every write
// of a row has a new version, and a row is removed at the version that was seen: removing the mark makes a
// deletion fail that still runs.

const (
	// DeletingFor is how long a lambda stays marked when no process renews the mark. Then it takes tasks
	// again.
	DeletingFor = 2 * time.Minute
	// renewAfter is how old a mark must be to be renewed: so old that processes that delete the lambda
	// together do not only make each other's writes fail.
	renewAfter = DeletingFor / 4
)

// Mark marks a lambda as being deleted, with its tasks or without, or renews a mark that is old enough. It
// refuses a lambda that has the same name and another reference (ErrUnknown).
func (c *Catalog) Mark(ctx context.Context, entry *Entry, dropping bool) (*Entry, error) {
	now := clock.Mono(c.clock)
	_, err := c.update(ctx, entry.Name, func(e *Entry) error {
		if err := isStill(e, entry); err != nil {
			return err
		}
		if e.Deleting && (e.Dropping || !dropping) && now-e.known < renewAfter {
			return nil
		}
		e.Deleting, e.Dropping = true, dropping || e.Deleting && e.Dropping
		e.Marked = max(c.clock.Now(), e.Marked+1) // so that it is written
		return nil
	})
	if err != nil {
		return nil, err
	}
	marked := c.ByRef(entry.Ref)
	if marked == nil || !marked.Deleting {
		return nil, fmt.Errorf("%w: %s", ErrChanged, entry.Name)
	}
	return marked, nil
}

// NeedsRenewal reports whether the mark of a lambda is to be renewed.
func (c *Catalog) NeedsRenewal(entry *Entry) bool {
	return clock.Mono(c.clock)-entry.known >= renewAfter
}

// Unmark cancels a deletion. It refuses a lambda that has the same name and another reference (ErrUnknown).
func (c *Catalog) Unmark(ctx context.Context, entry *Entry) error {
	_, err := c.update(ctx, entry.Name, func(e *Entry) error {
		e.Deleting, e.Dropping = false, false
		return isStill(e, entry)
	})
	return err
}

func isStill(now, before *Entry) error {
	if now.Ref != before.Ref {
		return fmt.Errorf("%w %q: it was deleted meanwhile, and another was created", ErrUnknown, now.Name)
	}
	return nil
}

// MarkedFor returns for how long this process has known a lambda to be marked, without a break.
func (c *Catalog) MarkedFor(e *Entry) time.Duration { return clock.Mono(c.clock) - e.marked }

// IsSameMark reports whether a lambda has been marked without a break between two reads.
func (e *Entry) IsSameMark(before *Entry) bool {
	return e.Ref == before.Ref && e.Deleting && before.Deleting && e.marked == before.marked
}

// cancelStaleDeletions cancels the deletions whose marks were not renewed. It counts from when this process
// read the row, and so needs no clock but its own.
func (c *Catalog) cancelStaleDeletions(ctx context.Context) {
	for _, entry := range c.All() {
		if !entry.Deleting || clock.Mono(c.clock)-entry.known < DeletingFor {
			continue
		}
		back := *entry
		back.Version++
		back.Deleting, back.Dropping = false, false
		_, err := c.put(ctx, &back)
		switch {
		case errors.Is(err, store.ErrConflict): // it was renewed, or another process was faster
		case err != nil:
			c.log.WarnContext(ctx, "cannot cancel a lambda deletion that timed out", slog.String("lambda", entry.Name), slog.Any("error", err))
		default:
			c.log.WarnContext(ctx, "lambda deletion timed out; accepting tasks again", slog.String("lambda", entry.Name))
		}
	}
}

// DroppedKind is the kind of control rows that name lambdas which were deleted with their tasks, by
// reference: their tasks that come out of the inbound buffer later are dropped too.
const DroppedKind = "dropped"

// Dropped is a lambda that was deleted with its tasks.
type Dropped struct {
	Name      string        `json:"name"`
	At        task.Instant  `json:"at_us"`
	Retention time.Duration `json:"retention_ns"` // of its tasks
}

// NoteDropped notes, before a lambda is removed, that its tasks are to be dropped; while the lambda exists
// the note means nothing. It also deletes notes older than keptFor.
func (c *Catalog) NoteDropped(ctx context.Context, entry *Entry, keptFor time.Duration) error {
	now := c.clock.Now()
	notes, err := c.rows.Controls(ctx, DroppedKind)
	if err != nil {
		return fmt.Errorf("read deleted lambdas: %w", err)
	}
	for _, row := range notes {
		var d Dropped
		if json.Unmarshal(row.Value, &d) == nil && d.At.Add(keptFor) < now {
			_ = c.rows.DeleteControl(ctx, row) // the next call tries again
		}
	}
	value, err := json.Marshal(Dropped{Name: entry.Name, At: now, Retention: entry.Retention})
	if err != nil {
		return err
	}
	err = c.rows.PutControl(ctx, store.Control{Kind: DroppedKind, Name: droppedName(entry.Ref), Version: 1, Value: value})
	if err != nil && !errors.Is(err, store.ErrConflict) { // it was noted before
		return fmt.Errorf("note that lambda %s is dropped: %w", entry.Name, err)
	}
	return nil
}

// DroppedLambda finds the lambda of a reference if it was deleted with its tasks; nil when there is none, or
// when it still exists.
func (c *Catalog) DroppedLambda(ctx context.Context, ref uint32) (*Dropped, error) {
	row, err := c.rows.Control(ctx, DroppedKind, droppedName(ref))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil //nolint:nilnil // as documented
	}
	if err != nil {
		return nil, fmt.Errorf("read deleted lambda %d: %w", ref, err)
	}
	if err := c.Refresh(ctx); err != nil || c.ByRef(ref) != nil {
		return nil, err
	}
	var d Dropped
	if err := json.Unmarshal(row.Value, &d); err != nil {
		return nil, fmt.Errorf("%w: deleted lambda %d: %w", store.ErrCorrupt, ref, err)
	}
	return &d, nil
}

func droppedName(ref uint32) string { return strconv.FormatUint(uint64(ref), 10) }

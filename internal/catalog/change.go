package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// casTriesMax bounds how often a change is tried again because another one came in between.
	casTriesMax = 5
	// writeMax bounds the write of a row, and so how late after the decision others can see it.
	writeMax = 10 * time.Second
)

// Create creates a lambda. Creating the same again is fine, and a duplicate; with other settings it is
// ErrExists. Unset fields get their defaults.
func (c *Catalog) Create(ctx context.Context, want task.Lambda) (entry *Entry, duplicate bool, err error) {
	return c.create(ctx, want, "", Owner{Urgent: true})
}

// CreateFor is Create for an owner, who has a share of all lambdas.
func (c *Catalog) CreateFor(ctx context.Context, want task.Lambda, by Owner) (entry *Entry, duplicate bool, err error) {
	return c.create(ctx, want, "", by)
}

// create is CreateFor for the lambda of a registration with that digest, if it is not empty.
func (c *Catalog) create(ctx context.Context, want task.Lambda, registration string, by Owner) (entry *Entry, duplicate bool, err error) {
	done, err := c.inTurn(ctx)
	if err != nil {
		return nil, false, err
	}
	defer done()
	for try := range 2 { // another process may have created it
		if try > 0 || !c.IsFresh(c.Since()) {
			if err := c.Refresh(ctx); err != nil {
				return nil, false, err
			}
		}
		want = c.WithDefaults(want)
		if err := want.Validate(); err != nil {
			return nil, false, err
		}
		if entry := c.known.Load().byName[want.Name]; entry != nil {
			return entry, true, sameSettings(entry.Lambda, want)
		}
		if err := cmp.Or(c.CheckBounds(want), c.CheckShare(by)); err != nil {
			return nil, false, err
		}
		want.Ref, want.Created = c.freeRef(), c.clock.Now()
		entry, err = c.put(ctx, &Entry{Lambda: want, Version: 1, Owner: by.Name, Registration: registration})
		if !errors.Is(err, store.ErrConflict) {
			return entry, false, err
		}
	}
	return nil, false, fmt.Errorf("%w: %s exists in a format that this version cannot read, or was deleted at this moment", ErrChanged, want.Name)
}

// inTurn waits until no other change of this process is under way, so that the bounds hold for calls at the
// same moment; done ends the turn.
func (c *Catalog) inTurn(ctx context.Context) (done func(), err error) {
	select {
	case c.changing <- struct{}{}:
		return func() { <-c.changing }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// GrownFrom returns when a count of shards that is written now comes into force.
func (c *Catalog) GrownFrom() task.Instant { return c.clock.Now().Add(GrownAfter) }

// freeRef draws a reference that no known lambda has; 0 is never one.
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
	want.Ref, want.Created, want.Deleting, want.LimitKeySet = have.Ref, have.Created, have.Deleting, have.LimitKeySet
	if have.HadShards(want.Shards) { // they have grown since
		want.Shards, want.ShardHistory = have.Shards, have.ShardHistory
	}
	if reflect.DeepEqual(have, want) {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrExists, describe(have))
}

// modeText names the kind of its queues, too, where that is fixed.
func modeText(l *task.Lambda) string {
	if l.FIFO {
		return l.Mode.String() + " with FIFO queues"
	}
	return l.Mode.String()
}

func describe(l task.Lambda) string {
	text := fmt.Sprintf("%s has mode %s, priorities %s, shards %d, max attempts %d, timeout %v, backoff %v..%v, retention %v",
		l.Name, modeText(&l), strings.Join(l.Priorities, ","), l.Shards, l.MaxAttempts, l.Timeout, l.BackoffMin, l.BackoffMax, l.Retention)
	if l.KeyRetention != 0 || l.PoisonBound != 0 || l.StartWithin != 0 { // zero: not set
		text += fmt.Sprintf(", key retention %v, poison bound %d, start within %v", l.KeyRetention, l.PoisonBound, l.StartWithin)
	}
	if l.HasKeyLimits() {
		text += fmt.Sprintf(", limit key concurrency %d, limit key rate %v", l.LimitKeyConcurrency, l.LimitKeyRate)
	}
	if l.RetryShare > 0 {
		text += fmt.Sprintf(", retry share %v", l.RetryShare)
	}
	if l.Breaker.IsSet() {
		text += fmt.Sprintf(", breaker failures %v in %v", l.Breaker.Failures, l.Breaker.Window)
	}
	if l.Target != nil {
		text += fmt.Sprintf(", target %s", l.Target.URL)
	}
	if weights := l.NamedWeights(); weights != nil {
		text += fmt.Sprintf(", priority weights %v", weights)
	}
	return text
}

// Update changes a lambda by compare-and-set; change edits a copy and may refuse. Nothing is written if it
// changes nothing.
func (c *Catalog) Update(ctx context.Context, name string, change func(*task.Lambda) error) (*Entry, error) {
	return c.update(ctx, name, func(e *Entry) error { return change(&e.Lambda) })
}

func (c *Catalog) update(ctx context.Context, name string, change func(*Entry) error) (*Entry, error) {
	done, err := c.inTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
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
		if next.LimitKeyConcurrency != entry.LimitKeyConcurrency || next.LimitKeyRate != entry.LimitKeyRate {
			next.LimitKeySet = c.clock.Now()
		}
		if err := next.Validate(); err != nil {
			return nil, err
		}
		if err := c.CheckBounds(next.Lambda); err != nil {
			return nil, err
		}
		if next.Registration == entry.Registration && next.Made == entry.Made && slices.Equal(next.Crons, entry.Crons) && next.Marked == entry.Marked && reflect.DeepEqual(next.Lambda, entry.Lambda) {
			return entry, nil
		}
		next, err = c.put(ctx, next)
		if !errors.Is(err, store.ErrConflict) {
			return next, err
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrChanged, name)
}

// Remove deletes the row of a lambda at the version that was seen; ErrChanged when it was changed since. It
// is fine if another process removed it. The caller has dealt with its tasks.
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

// isGone reads whether a lambda was removed. Versions begin anew when another one of the same name is
// created, so only the references tell the two apart.
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
	wrote := clock.Mono(c.clock)
	within, cancel := clock.Within(ctx, c.clock, writeMax)
	defer cancel()
	if err := c.rows.PutControl(within, row); err != nil {
		return nil, fmt.Errorf("write lambda %s: %w", entry.Name, err)
	}
	return c.learn(ctx, row, wrote)
}

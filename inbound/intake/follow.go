package intake

import (
	"context"
	"errors"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Chains is what the intake needs to know of what follows tasks.
type Chains interface {
	// Follow gives a task of a batch, which has its id, what its item says that follows it, after all of that
	// was checked. apart is what the row of the task has no room for.
	Follow(ctx context.Context, b *Batch, c *Incoming, l *catalog.Entry, t *task.Task) (apart []byte, err error)
	// CompleteBy creates what follows a task that has ended, before its row is replaced. A follow-up with a
	// key takes it by take; nil: ErrTakesKey says that there is one.
	CompleteBy(ctx context.Context, ended *task.Task, take Taker) error
	// Renew gives a task that starts anew in place of one that has ended what followed that when it was
	// scheduled. apart is as of Follow.
	Renew(ctx context.Context, ended, next *task.Task) (apart []byte, err error)
}

// Follow gives a task, which has its id, what follows it.
func (b *Batch) Follow(ctx context.Context, c *Incoming, l *catalog.Entry, t *task.Task) (err error) {
	if b.Chains != nil {
		c.follow, err = b.Chains.Follow(ctx, b, c, l, t)
	}
	return err
}

// CompleteEnd creates what follows a task that has ended, before its row is replaced.
func (in *Intake) CompleteEnd(ctx context.Context, ended *task.Task, take Taker) error {
	if in.Chains == nil {
		return nil
	}
	return in.Chains.CompleteBy(ctx, ended, take)
}

// RenewFollowups takes from a task that starts anew what its handler added to what follows it.
func (in *Intake) RenewFollowups(ctx context.Context, ended, next *task.Task, l *catalog.Entry) error {
	if in.Chains == nil {
		return nil
	}
	apart, err := in.Chains.Renew(ctx, ended, next)
	if err != nil || apart == nil {
		return err
	}
	put := store.PutFollow(next, apart, next.Due.Add(l.Retention))
	if err := store.Outcomes(ctx, in.Store, []store.Op{put})[0]; !errors.Is(err, store.ErrConflict) {
		return err
	}
	return nil
}

// storeFollows stores what follows tasks where that does not fit their rows, and returns the tasks where it
// was there.
func (b *Batch) storeFollows(ctx context.Context, some []*Incoming) (existing []*Incoming) {
	if len(some) == 0 {
		return nil
	}
	ops := make([]store.Op, len(some))
	for k, c := range some {
		t := c.Wakeup()
		ops[k] = store.PutFollow(t, c.follow, max(t.Due, b.Now).Add(c.Lambda.Retention))
		ops[k].New = true
	}
	for k, outcome := range store.Outcomes(ctx, b.Store, ops) {
		if c := some[k]; errors.Is(outcome, store.ErrConflict) {
			existing = append(existing, c)
		} else {
			c.Err = outcome
		}
	}
	return existing
}

// renameFollow gives what follows a task that replaces an ended one with its key an id of its own.
func (c *Incoming) renameFollow() {
	for i := range c.rows {
		t := &c.rows[i].Task
		chain := *t.Chain
		chain.FollowID = t.FollowIDOf(c.follow)
		t.Chain = &chain
	}
}

func (c *Incoming) hasFollowApart() bool { return c.IsOpen() && c.follow != nil }

package hsc

import (
	"context"
	"errors"

	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Before it writes claims, a claimer sorts out the messages that this worker must not claim, or for which a
// write would be refused.

// refuseTooOld refuses messages that are too old. It comes before refuseDuplicates, because an old message
// must not stand for a newer one of its task.
func (c *claimer) refuseTooOld() {
	now := c.svc.Clock.Now()
	for cl := range c.in(claimOpen) {
		if cl.isTooOld(now) {
			cl.refuse(cl.row)
		}
	}
}

// refuseDuplicates leaves one claim of each task: two that write the same row in the same instant could both
// be told that they had.
func (c *claimer) refuseDuplicates() {
	if c.seen == nil {
		c.seen = make(map[task.ID]struct{}, len(c.claims))
	}
	clear(c.seen)
	for cl := range c.in(claimOpen) {
		before := len(c.seen)
		if c.seen[cl.row.ID] = struct{}{}; len(c.seen) == before {
			cl.state, cl.reason = claimRefused, RefusedTwice
		}
	}
}

// refuseRedelivered refuses, without a write, messages that have led to a claim already. For messages that were delivered
// before and led to no claim here it reads the rows; if that fails they are claimed like others.
func (c *claimer) refuseRedelivered(ctx context.Context) {
	var again []*claim
	for cl := range c.in(claimOpen) {
		switch {
		case c.svc.recentClaims.has(cl.row):
			cl.state, cl.reason = claimRefused, RefusedAgain
		case cl.message.Again:
			again = append(again, cl)
		}
	}
	if len(again) == 0 {
		return
	}
	rows, err := c.currentRows(ctx, again)
	if err != nil {
		c.svc.Hooks.Failed("read tasks of messages that came again", err)
		return
	}
	for i, cl := range again {
		c.reconsider(cl, rows[i])
	}
}

// admit puts back messages that this worker may not claim now. The id of a task in quarantine is written on
// the lease before the task is claimed.
func (c *claimer) admit(ctx context.Context) error {
	for cl := range c.in(claimOpen) {
		if cl.entry = c.svc.Catalog.ByRef(cl.row.Partition.Lambda); cl.entry == nil {
			cl.state = claimPutBack
			continue
		}
		if !isBlamed(*cl.message) || !c.sess.isReserved(cl.row.ID) {
			continue
		}
		if err := c.admitSuspect(ctx, cl); err != nil {
			c.putBackUndecided()
			return err
		}
	}
	return nil
}

func (c *claimer) admitSuspect(ctx context.Context, cl *claim) error {
	id := cl.row.ID
	cl.isSuspect = true
	err := c.svc.Leases.SetSuspect(ctx, c.sess.worker, id)
	if err == nil {
		return nil
	}
	c.svc.suspectDone(c.sess, id)
	cl.state = claimPutBack
	if errors.Is(err, lease.ErrLost) {
		return leaseLost(c.sess.worker)
	}
	c.svc.Hooks.Failed("note a suspect", err)
	return nil
}

// readPayloads reads what a worker needs besides the rows, before anything is claimed: how the parents of follow-ups ended,
// and the payloads that are stored apart, but for those of tasks that gates hold.
func (c *claimer) readPayloads(ctx context.Context) {
	for cl := range c.in(claimOpen) {
		if cl.row.Chain != nil {
			var err error
			switch cl.parent, err = c.svc.readParent(ctx, cl.row); {
			case err == nil:
			case isDamaged(err):
				cl.cannotRun = parentDamaged
				continue
			default:
				cl.state = claimPutBack
				continue
			}
		}
		if !cl.row.PayloadStoredApart() {
			continue
		}
		if cl.payloadUnread = c.svc.isHeld(cl.row, c.svc.Clock.Now()); cl.payloadUnread {
			continue
		}
		payload, err := c.svc.Store.Payload(ctx, cl.row.PayloadID())
		switch {
		case err == nil:
			cl.payload = payload
		case errors.Is(err, store.ErrNotFound): // of an ended task, most likely: the claim tells
			cl.cannotRun = store.PayloadMissing
		case isDamaged(err): // it would go back at each claim, for ever
			c.svc.Hooks.Failed("read a payload", err)
			cl.cannotRun = store.PayloadDamaged
		default:
			c.svc.Hooks.Failed("read a payload", err)
			cl.state = claimPutBack
		}
	}
}

package sdk

import (
	"context"
	"time"
)

// GroupPlan is a group that is not made yet. Group begins one.
type GroupPlan struct {
	members []Item
	spec    GroupSpec
}

// Group begins a group with these members, as in
//
//	sdk.Group(items...).Then(report).Schedule(ctx, client)
func Group(members ...Item) *GroupPlan { return &GroupPlan{members: members} }

// Then sets the tasks that follow when all members have ended. With Else or Finally they follow only if all
// members succeeded.
func (p *GroupPlan) Then(items ...Item) *GroupPlan {
	p.spec.Then = items
	return p
}

// Else sets the tasks that follow instead if a member did not succeed, or the group expired or was cancelled.
func (p *GroupPlan) Else(items ...Item) *GroupPlan {
	p.spec.Else = items
	return p
}

// Finally sets the tasks that follow however the group ends.
func (p *GroupPlan) Finally(items ...Item) *GroupPlan {
	p.spec.Finally = items
	return p
}

// Expires sets when the group expires if it is not done.
func (p *GroupPlan) Expires(at time.Time) *GroupPlan {
	p.spec.Expires = at
	return p
}

// Schedule makes the group, adds its members and seals it.
func (p *GroupPlan) Schedule(ctx context.Context, c *Client) (GroupInfo, error) {
	w, err := p.Begin(ctx, c)
	if err != nil {
		return GroupInfo{}, err
	}
	return w.Seal(ctx)
}

// Begin makes the group and adds its members, so that more can be added one by one.
func (p *GroupPlan) Begin(ctx context.Context, c *Client) (*GroupWriter, error) {
	g, err := c.CreateGroup(ctx, p.spec)
	if err != nil {
		return nil, err
	}
	w := &GroupWriter{ID: g.ID, client: c}
	return w, w.Add(ctx, p.members...)
}

// GroupWriter adds members to a group, any number of them, in calls of many. One goroutine at a time may use
// it.
type GroupWriter struct {
	ID string // of the group

	client  *Client
	waiting []Item
	added   int
}

// Add adds members. They are durable when Flush or Seal has returned. After an error, Flush tries again.
func (w *GroupWriter) Add(ctx context.Context, items ...Item) error {
	w.waiting = append(w.waiting, items...)
	if len(w.waiting) < itemsPerCallMax {
		return nil
	}
	return w.Flush(ctx)
}

// Flush adds the members that wait.
func (w *GroupWriter) Flush(ctx context.Context) error {
	ids, err := w.client.AddMembers(ctx, w.ID, w.added, w.waiting)
	w.added += len(ids)
	if w.waiting = w.waiting[len(ids):]; len(w.waiting) == 0 {
		w.waiting = nil
	}
	return err
}

// Seal adds the members that wait and says that there are no more.
func (w *GroupWriter) Seal(ctx context.Context) (GroupInfo, error) {
	if err := w.Flush(ctx); err != nil {
		return GroupInfo{}, err
	}
	return w.client.SealGroup(ctx, w.ID, w.added)
}

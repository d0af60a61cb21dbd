package sdk

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/task"
)

// Step is a task of a chain that is being built. It is a value: its methods return a changed copy.
type Step struct {
	item Item
	err  error
}

// With returns a step of a chain: a task of the lambda with these arguments. A step with a Key becomes the
// task of that key; if another task holds it, the step is not created, and the chain says so.
func (l Lambda[T]) With(args T, opts ...Option) Step {
	item, err := l.Item(args, opts...)
	return Step{item, err}
}

// Step returns the item as a step of a chain.
func (i Item) Step() Step { return Step{item: i} }

// After has the step start so long after the end of the task before it.
func (s Step) After(d time.Duration) Step {
	In(d)(&s.item)
	return s
}

// Then has tasks follow when the step has succeeded.
func (s Step) Then(steps ...Step) Step {
	s.item.Then, s.err = s.with(s.item.Then, steps)
	return s
}

// Else has tasks follow when the step has ended in any other way: it failed for good, its attempts were used
// up, it was cancelled or dropped, or it expired.
func (s Step) Else(steps ...Step) Step {
	s.item.Else, s.err = s.with(s.item.Else, steps)
	return s
}

// Finally has tasks follow when the step has ended, in any way.
func (s Step) Finally(steps ...Step) Step {
	s.item.Finally, s.err = s.with(s.item.Finally, steps)
	return s
}

// with returns a list of follow-ups with more, and the first error of the step.
func (s Step) with(have []Item, steps []Step) ([]Item, error) {
	items, err := itemsOf(steps)
	if s.err != nil {
		err = s.err
	}
	return append(slices.Clip(have), items...), err
}

func itemsOf(steps []Step) ([]Item, error) {
	items := make([]Item, len(steps))
	for i, s := range steps {
		if s.err != nil {
			return nil, s.err
		}
		items[i] = s.item
	}
	return items, nil
}

// Steps is a chain that is being built: each step starts when the one before it has succeeded.
type Steps struct {
	steps     []Step
	onFailure []Step
	finally   []Step
}

// Chain returns a chain of steps. Each starts when the one before it has succeeded:
//
//	sdk.Chain(charge.With(order), ship.With(order).After(time.Hour)).OnFailure(refund.With(order))
func Chain(steps ...Step) Steps { return Steps{steps: steps} }

// OnFailure has tasks start when a step, whichever it is, has ended in another way than with success. They
// get its error (Task.Parent), and the steps after it do not start.
func (c Steps) OnFailure(steps ...Step) Steps {
	c.onFailure = append(slices.Clip(c.onFailure), steps...)
	return c
}

// Finally has tasks start when the chain is over: after its last step, or the one that failed.
func (c Steps) Finally(steps ...Step) Steps {
	c.finally = append(slices.Clip(c.finally), steps...)
	return c
}

// Item returns the first task of the chain, with all that follows it.
func (c Steps) Item(opts ...Option) (Item, error) {
	if len(c.steps) == 0 {
		return Item{}, fmt.Errorf("%w: a chain has one step at least", ErrInvalid)
	}
	var next Step
	for i, step := range slices.Backward(c.steps) {
		s := step.Else(c.onFailure...)
		if i == len(c.steps)-1 {
			s = s.Finally(c.finally...)
		} else {
			s = s.Then(next).Else(c.finally...)
		}
		next = s
	}
	for _, o := range opts {
		o(&next.item)
	}
	return next.item, next.err
}

// Schedule schedules the chain. When it returns without an error, all of it is durable. The id is that of
// the first task and of the chain. The options are for the first task, such as Key, or In for the start of
// the chain.
func (c Steps) Schedule(ctx context.Context, s Scheduler, opts ...Option) (ID, error) {
	item, err := c.Item(opts...)
	if err != nil {
		return "", err
	}
	r, err := s.Schedule(ctx, item)
	return r.ID, err
}

// Parent is the task before a follow-up, as it ended.
type Parent struct {
	ID       ID
	Lambda   string
	Key      string // empty: none
	State    State
	Result   []byte        // of a success
	Error    string        // of its last attempt, if it did not succeed; not after Then
	Attempts []AttemptInfo // not after Then
	Edge     string        // "then", "else" or "finally": how the task follows it
}

// Link says where in a chain a task is.
type Link struct {
	Root      ID     // id of the chain: its first task
	Parent    ID     // the task before it; empty: it is the first
	Edge      string // "then", "else" or "finally"; empty: it is the first
	Followups int    // that the task names itself
	Paused    bool
}

// ChainInfo describes a chain.
type ChainInfo struct {
	ID    ID
	State string // "live", "paused" or "ended"
	Root  ChainTask
	Count int  // of tasks that are there, as far as shown
	More  bool // it has more tasks than are shown
}

// ChainTask is a task of a chain, or one that may come.
type ChainTask struct {
	ID     ID // empty: it is not there, or the caller may not read it
	Lambda string
	// State is that of the task, or "planned", "skipped" (the task before it ended in another way), "held"
	// (another task held its key: Error says which) or "missing" (it is not kept any more, or its lambda was
	// deleted).
	State      State
	Edge       string // "then", "else" or "finally"; empty: it is the first
	Collection string
	Due        time.Time
	Delay      time.Duration // of one that is planned
	Started    time.Time
	Ended      time.Time
	Attempt    int
	Error      string // of its last attempt, if it did not succeed
	WaitsFor   string // for people
	Paused     bool
	// BeforeRedrive says that the task follows an earlier end of the task before it, which was redriven
	// since, or comes after such a task.
	BeforeRedrive bool
	Followups     []ChainTask
}

// GetChain reads a chain by the id of any of its tasks.
func (c *Client) GetChain(ctx context.Context, id ID) (ChainInfo, error) {
	r, err := call(ctx, c, "get chain", c.backend.chains.GetChain, &kinesinv1.GetChainRequest{Id: string(id)})
	return wirecopy.From[ChainInfo](r), err
}

// addedFollowUps returns what a handler adds to what follows its task as it is sent.
func (c *Client) addedFollowUps(ctx context.Context, items []Item) ([]Item, error) {
	items, err := c.encodeFollowups(ctx, items)
	if err != nil || c.cfg.Blobs == nil {
		return items, err
	}
	added, large, err := c.offloadWhatFollows(Item{Then: items}, 0)
	if err != nil {
		return nil, err
	}
	return added.Then, c.putFollowUps(ctx, large)
}

// keyOfFollowUp returns the key for which the payload of a follow-up is encoded. One that has a key for its
// blob alone is encoded as without one, so that the same call again encodes the same.
func keyOfFollowUp(key string) string {
	if strings.HasPrefix(key, task.BlobKeyPrefix) {
		return ""
	}
	return key
}

// encodeFollowups returns items that follow a task with encoded payloads. Their ids are not known yet, so
// they are encoded for their lambda, and their key if they have one.
func (c *Client) encodeFollowups(ctx context.Context, items []Item) ([]Item, error) {
	if c.cfg.Encode == nil || len(items) == 0 {
		return items, nil
	}
	encoded := slices.Clone(items)
	for i := range encoded {
		var err error
		if encoded[i].Payload, err = c.cfg.Encode(ctx, items[i].Lambda, keyOfFollowUp(items[i].Key), [16]byte{}, items[i].Payload); err != nil {
			return nil, fmt.Errorf("encode the payload of a %s task: %w", items[i].Lambda, err)
		}
		if encoded[i], err = c.encodeWhatFollows(ctx, encoded[i]); err != nil {
			return nil, err
		}
	}
	return encoded, nil
}

// encodeWhatFollows returns an item whose follow-ups have encoded payloads.
func (c *Client) encodeWhatFollows(ctx context.Context, i Item) (Item, error) {
	for _, list := range []*[]Item{&i.Then, &i.Else, &i.Finally} {
		var err error
		if *list, err = c.encodeFollowups(ctx, *list); err != nil {
			return i, err
		}
	}
	return i, nil
}

func wireItems(items []Item) []*kinesinv1.ScheduleItem {
	wire := make([]*kinesinv1.ScheduleItem, len(items))
	for i := range items {
		wire[i] = items[i].wire(nil)
		wire[i].Delay = items[i].In.Microseconds() // below 0 the server refuses it: nobody waits for it, so it is a mistake
	}
	return wire
}

// decodeParent decodes the result of the task before an attempt's.
func (c *Client) decodeParent(ctx context.Context, w *kinesinv1.Claimed, p *Parent) error {
	if p == nil || len(p.Result) == 0 {
		return nil
	}
	result, err := c.decodeResult(ctx, p.Lambda, w.Parent.GetKey(), p.ID, p.Result)
	p.Result = result
	return err
}

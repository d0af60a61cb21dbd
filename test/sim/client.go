package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/test/checker"
)

// client gives the orders of one client, each in a goroutine of its own.
type client struct {
	*process

	sdk  *sdk.Client
	once *sdk.Client // tries each call once
}

func (w *world) client(n int) *client {
	p := w.process(fmt.Sprintf("client-%d", n))
	return &client{p, w.dial(p), w.dial(p, sdk.WithTries(1))}
}

// callWithin bounds a call of a client.
const callWithin = 2 * time.Minute

func (c *client) do(o *Order, known func(int) sdk.ID, learn func(sdk.ID)) {
	ctx, stop := context.WithTimeout(c.w.ctx, callWithin)
	defer stop()
	switch o.Do {
	case schedule, again:
		c.schedule(ctx, o, learn)
	case cancel:
		c.cancel(ctx, known(o.Of))
	case get:
		if id := known(o.Of); id != "" {
			info, err := c.look(ctx, id)
			c.w.trace.note(c.name, "get %s: %s %v", id, info.State, err)
		}
	case alter:
		c.alter(ctx, o.Change)
	case nothing:
	}
}

func (c *client) schedule(ctx context.Context, o *Order, learn func(sdk.ID)) {
	payload, err := json.Marshal(o.Task)
	if err != nil {
		panic(err)
	}
	c.w.event(checker.Event{Kind: checker.Requested, Nonce: o.Task.Nonce})
	called := time.Now()
	r, err := c.sdk.Schedule(ctx, sdk.Item{Lambda: lambda, Payload: payload, In: o.In, Key: o.Key, Priority: o.Class, LimitKey: o.LimitKey})
	c.scheduled(o.Task.Nonce, called, r, err)
	if err != nil {
		c.w.saw("schedule failed")
		c.w.trace.note(c.name, "schedule %s: %v", o.Task.Nonce, err)
		return
	}
	c.w.saw(fmt.Sprintf("schedule answered, duplicate %v", r.Duplicate))
	c.w.event(checker.Event{Kind: checker.Acked, Nonce: o.Task.Nonce, Task: taskOf(r.ID), Due: min(r.Due.UnixMicro(), called.Add(o.In).UnixMicro()), Want: o.Task.want()})
	learn(r.ID)
}

func (c *client) cancel(ctx context.Context, id sdk.ID) {
	if id == "" {
		return
	}
	c.w.event(checker.Event{Kind: checker.Cancelling, Task: taskOf(id)})
	outcome, err := c.revoke(ctx, id)
	c.w.trace.note(c.name, "cancel %s: %s %v", id, outcome, err)
	switch {
	case err == nil && outcome == sdk.CancelDone:
		c.w.saw("cancelled")
		c.w.event(checker.Event{Kind: checker.Cancelled, Task: taskOf(id)})
	case err == nil:
		c.w.saw("cancelling")
	case errors.Is(err, sdk.ErrTooLate):
		c.w.saw("too late to cancel")
	}
}

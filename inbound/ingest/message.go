package ingest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// message is a received message.
type message struct {
	buffer.Message
	broken error // why it could not be opened
	tries  int   // how often it was received, this time included
	tasks  int

	again         time.Duration // when it is to come again; 0: it is done with
	redeliverable bool          // it would do no harm if it came again soon
}

// handle takes in what is in messages and deletes those that are done with. It returns how many tasks they
// have, and how long there is time to wait for more when there were few.
func (c *consumer) handle(ctx context.Context, messages []buffer.Message) (tasks int, pause time.Duration) {
	if len(messages) == 0 {
		c.Backlog.received(0)
		return 0, 0
	}
	endHiding := c.keepHidden(ctx, messages)
	all, arrivals := c.open(messages)
	c.Backlog.received(oldest(arrivals))
	results := c.takeIn(ctx, arrivals)
	tasks, pause = len(arrivals), c.pauseAfter(arrivals)
	var failure error
	done := 0
	for i := range all {
		m := &all[i]
		if m.broken != nil {
			tasks++
		}
		failure = cmp.Or(failure, c.settle(ctx, m, arrivals[done:done+m.tasks], results[done:done+m.tasks]))
		done += m.tasks
	}
	endHiding()
	failure = cmp.Or(failure, c.finish(ctx, all))
	switch {
	case failure == nil:
		c.breaker.Succeeded()
	case !slices.ContainsFunc(results, func(r result) bool { return r.outcome == stored }):
		c.failed(ctx, failure) // not for a single task that the store never takes
	}
	return tasks, pause
}

// open opens messages and returns the arrivals in all of them, in order.
func (c *consumer) open(messages []buffer.Message) (all []message, arrivals []arrival) {
	all = make([]message, len(messages))
	for i, m := range messages {
		all[i].Message = m
		e, err := envelope.Open(c.InboundSealer, m.Body)
		if err != nil {
			all[i].broken = err
			continue
		}
		all[i].tries, all[i].tasks = int(e.Tries)+m.Receives, len(e.Tasks)
		for _, t := range e.Tasks {
			arrivals = append(arrivals, arrival{BufferedTask: t, tries: all[i].tries})
		}
	}
	return all, arrivals
}

// oldest returns when the oldest of arrivals was accepted; 0 when there are none.
func oldest(arrivals []arrival) (at task.Instant) {
	for i := range arrivals {
		if accepted := task.Instant(arrivals[i].AcceptedMicros); at == 0 || accepted < at {
			at = accepted
		}
	}
	return at
}

// pauseAfter returns for how long to receive nothing after a receive that brought these.
func (c *consumer) pauseAfter(arrivals []arrival) time.Duration {
	now := c.Clock.Now()
	for i := range arrivals {
		a := &arrivals[i]
		if a.due <= now.Add(soonMax) || now.Sub(task.Instant(a.AcceptedMicros)) > freshMax {
			return receivePauseSoon
		}
	}
	return max(receivePauseSoon, min(receivePause, c.Near/nearPauses))
}

// settle rejects what is to be rejected and decides whether the message comes again. Its error is a failure
// of the store.
func (c *consumer) settle(ctx context.Context, m *message, arrivals []arrival, results []result) error {
	if m.broken != nil {
		_, err := c.reject(ctx, m, brokenMessage(m.Body, m.broken), m.broken)
		return err
	}
	var failure error
	var rest []*kinesinv1.BufferedTask
	m.redeliverable = true
	for i, r := range results {
		left := true
		m.redeliverable = m.redeliverable && r.outcome == stored && arrivals[i].redeliverable
		switch r.outcome {
		case stored:
			left = false
		case rejected:
			var err error
			left, err = c.reject(ctx, m, rejectedTask(arrivals[i].BufferedTask, r), r.err)
			failure = cmp.Or(failure, err)
		case unknownLambda:
			c.leave(m, LeftUnknown, unknownTryAfter)
		case retryLater:
			failure = cmp.Or(failure, r.err)
			after := retryBackoff.Pause(c.Clock, m.tries)
			c.Backlog.left(after)
			c.leave(m, LeftStore, after)
		}
		if left {
			rest = append(rest, arrivals[i].BufferedTask)
		}
	}
	if len(rest) > 0 && len(rest) < len(results) {
		c.splitOff(ctx, m, rest)
	}
	return failure
}

// leave has a message come again after a while.
func (c *consumer) leave(m *message, why string, after time.Duration) {
	if m.again == 0 && c.Hooks.Left != nil {
		c.Hooks.Left(why, 1)
	}
	m.again = max(m.again, after)
}

// splitOff sends the rest of a message as a message of its own, so that the stored tasks are not taken in
// again with it. If that fails all of them come again, which does no harm.
func (c *consumer) splitOff(ctx context.Context, m *message, rest []*kinesinv1.BufferedTask) {
	body, err := envelope.Seal(c.InboundSealer, rest, uint32(m.tries))
	if err != nil {
		return
	}
	ctx, cancel := clock.Within(ctx, c.Clock, settleMax)
	defer cancel()
	sent := c.Buffer.Send(ctx, []buffer.Outgoing{{Body: body, Delay: min(m.again, buffer.DelayMax)}})
	if len(sent) > 0 && sent[0] == nil {
		m.again = 0
	}
}

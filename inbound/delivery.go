package inbound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// handle takes in what is in messages, and deletes those of which nothing is left to do. It returns how many
// tasks they have, and how long there is time to wait for more when there were few.
func (c *consumer) handle(ctx context.Context, messages []buffer.Message) (tasks int, pause time.Duration) {
	if len(messages) == 0 {
		c.backlog.saw(c.Clock, 0)
		return 0, 0
	}
	letGo := c.hold(ctx, messages)
	all := make([]delivery, len(messages))
	var arrivals []arrival
	for i, m := range messages {
		d := &all[i]
		d.message = m
		e, err := envelope.Open(c.inboundSealer, m.Body)
		if err != nil {
			d.broken = err
			tasks++
			continue
		}
		d.tries, d.tasks = int(e.Tries)+m.Receives, len(e.Tasks)
		for _, t := range e.Tasks {
			arrivals = append(arrivals, arrival{BufferedTask: t, tries: d.tries})
		}
	}
	tasks += len(arrivals)
	c.backlog.saw(c.Clock, oldest(arrivals))
	fates := c.takeIn(ctx, arrivals)
	fatesAll := fates
	pause = c.pauseAfter(arrivals)
	var failed error
	for i := range all {
		n := all[i].tasks
		failed = cmp.Or(failed, c.settleDelivery(ctx, &all[i], arrivals[:n], fates[:n]))
		arrivals, fates = arrivals[n:], fates[n:]
	}
	letGo()
	if err := c.conclude(ctx, all); failed == nil {
		failed = err
	}
	switch {
	case failed == nil:
		c.rest.succeeded()
	case !anyTaken(fatesAll): // a single task that the store never takes is no reason for all to wait
		c.trouble(ctx, failed)
	}
	return tasks, pause
}

// pauseAfter is how long to leave the buffer alone after it brought these.
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

func anyTaken(fates []fate) bool {
	return slices.ContainsFunc(fates, func(f fate) bool { return f.verdict == taken })
}

// delivery is a message in hand.
type delivery struct {
	message buffer.Message
	broken  error // why it was not opened
	tries   int
	tasks   int

	again time.Duration // when it is to come again; 0: it is done with
	lasts bool          // it would do no harm if it came again soon
}

// settleDelivery sets aside what is to be, and decides whether the message comes again. Its error is trouble
// with the store.
func (c *consumer) settleDelivery(ctx context.Context, d *delivery, arrivals []arrival, fates []fate) error {
	if d.broken != nil {
		_, err := c.setAside(ctx, d, brokenMessage(d.message.Body, d.broken), d.broken)
		return err
	}
	var failed error
	var rest []*kinesinv1.BufferedTask
	d.lasts = true
	for i, f := range fates {
		left := true
		d.lasts = d.lasts && f.verdict == taken && arrivals[i].lasts
		switch f.verdict {
		case taken:
			left = false
		case rejected:
			var err error
			left, err = c.setAside(ctx, d, refusedTask(arrivals[i].BufferedTask, f), f.err)
			failed = cmp.Or(failed, err)
		case unknown:
			c.leave(d, LeftUnknown, unknownTryAfter)
		case later:
			failed = cmp.Or(failed, f.err)
			after := c.retryAfter(d.tries)
			c.backlog.left(c.Clock, after)
			c.leave(d, LeftStore, after)
		}
		if left {
			rest = append(rest, arrivals[i].BufferedTask)
		}
	}
	if len(rest) > 0 && len(rest) < len(fates) {
		c.splitOff(ctx, d, rest)
	}
	return failed
}

func (c *consumer) leave(d *delivery, why string, after time.Duration) {
	if d.again == 0 && c.Hooks.Left != nil {
		c.Hooks.Left(why, 1)
	}
	d.again = max(d.again, after)
}

func (c *consumer) retryAfter(tries int) time.Duration {
	return jittered(c.Clock, min(retryAfterMin<<min(max(tries-1, 0), 16), retryAfterMax))
}

// splitOff puts the tasks of a message that are left over back under way in a message of their own, so that
// the others are not taken in again with them. If that fails they all come again, which is no harm.
func (c *consumer) splitOff(ctx context.Context, d *delivery, rest []*kinesinv1.BufferedTask) {
	body, err := envelope.Seal(c.inboundSealer, rest, uint32(d.tries))
	if err != nil {
		return
	}
	ctx, cancel := clock.Within(ctx, c.Clock, settleMax)
	defer cancel()
	sent := c.Buffering.Buffer.Send(ctx, []buffer.Outgoing{{Body: body, Delay: min(d.again, buffer.DelayMax)}})
	if outcomeOf(sent, 0, errNoOutcome) == nil {
		d.again = 0
	}
}

// conclude deletes the messages that are done with and makes the others come again.
func (c *consumer) conclude(ctx context.Context, all []delivery) error {
	ctx, cancel := clock.Within(ctx, c.Clock, settleMax)
	defer cancel()
	var done, lasting []buffer.Message
	again := map[time.Duration][]buffer.Message{} // by whole seconds, so that few requests do
	for i := range all {
		d := &all[i]
		switch {
		case d.again > 0:
		case d.lasts:
			lasting = append(lasting, d.message)
			continue
		default:
			done = append(done, d.message)
			continue
		}
		after := max(d.again.Truncate(time.Second), time.Second)
		again[after] = append(again[after], d.message)
	}
	if len(done) == 0 {
		c.removal.add(lasting)
	} else {
		done = append(done, lasting...) // there is a request anyway
	}
	var errs []error
	if len(done) > 0 {
		errs = append(errs, c.Buffering.Buffer.Delete(ctx, done))
	}
	for after, messages := range again {
		errs = append(errs, c.Buffering.Buffer.Retry(ctx, messages, after))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("settle messages of the inbound buffer: %w", err) // they come again when their visibility ends
	}
	return nil
}

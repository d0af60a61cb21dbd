package inbound

import (
	"context"

	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/clock"
)

// With a buffer there are two ways to accept a task. One that has time goes to the buffer, which package
// ingest empties at a steady rate. The store takes at once what is due soon and what has a key, since only
// the store can say whether a key is taken; and everything else while the buffer refuses or is slow, so that
// accepting needs one of the two and not both.

// sendToBuffer sends the tasks that have time to the buffer. A task that it acknowledges needs no rows here;
// the others are left for the store.
func (in *Inbound) sendToBuffer(ctx context.Context, b *intake.Batch) {
	if in.sender == nil {
		return
	}
	var some []*intake.Incoming
	var tasks []*kinesinv1.BufferedTask
	hasTime := func(c *intake.Incoming) bool {
		return c.IsOpen() && c.IsAlone() && c.Task.Enqueued.IsZero() && c.Task.Chain == nil && c.Task.Due > b.Now.Add(in.Near)
	}
	for _, c := range b.Select(hasTime) {
		if t := in.BufferedTask(c.Lambda, c.Task, c.Item.Payload); envelope.Fits(in.InboundSealer, t, in.Buffering.Buffer.BodyBytesMax()) {
			some, tasks = append(some, c), append(tasks, t)
			c.Way = intake.WayFallback // unless it is acknowledged
		}
	}
	if len(some) == 0 || in.sender.breaker.Left(in.Clock) > 0 {
		return
	}
	within, cancel := clock.Within(ctx, in.Clock, in.Buffering.Wait)
	defer cancel()
	failed := false
	for k, err := range in.sender.Do(within, tasks) {
		if err != nil {
			failed = true
			continue
		}
		some[k].AcceptWithoutRows(intake.WayBuffer, tasks[k].Id)
	}
	if failed {
		in.sender.breaker.Failed(in.Clock)
	} else {
		in.sender.breaker.Succeeded()
	}
}

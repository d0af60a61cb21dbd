package inbound

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/gather"
)

const (
	// bufferEnough tasks wait no longer than Linger for others: a hundred requests for a thousand tasks are
	// few.
	bufferEnough = 10
	// bufferSendsMax is how many sends are in flight at a time. Tasks that come meanwhile are packed.
	bufferSendsMax = 8
	// bufferSendMax bounds a send whose callers may be gone.
	bufferSendMax = 10 * time.Second
)

// bufferBackoff is for how long calls do not try the buffer after it failed, so that not each of them waits
// in vain.
var bufferBackoff = backoff.Policy{Min: time.Second, Max: 30 * time.Second}

// bufferSender sends the tasks of Schedule calls to the buffer in batches.
type bufferSender struct {
	*gather.Gatherer[*kinesinv1.BufferedTask]
	breaker backoff.Breaker
	cfg     *Config
}

func newBufferSender(c *Config) *bufferSender {
	s := &bufferSender{breaker: backoff.Breaker{Policy: bufferBackoff}, cfg: c}
	s.Gatherer = gather.New(gather.Config[*kinesinv1.BufferedTask]{
		Clock: c.Clock, Send: s.sendBatch, Bytes: envelope.Bytes,
		ItemsMax: buffer.BatchMax * envelope.TasksMax, BytesMax: c.Buffering.Buffer.BodyBytesMax(),
		SendsMax: bufferSendsMax, Linger: c.Buffering.Linger, Patience: c.Buffering.Patience, Enough: bufferEnough, PendingMax: 2 * ScheduleItemsMax,
	})
	return s
}

var errNoOutcome = errors.New("the buffer gave no outcome")

// sendBatch packs tasks into messages and sends them, with an outcome for each task.
func (s *bufferSender) sendBatch(ctx context.Context, tasks []*kinesinv1.BufferedTask) []error {
	ctx, cancel := clock.Within(ctx, s.cfg.Clock, bufferSendMax)
	defer cancel()
	messages, err := envelope.Pack(s.cfg.InboundSealer, tasks, s.cfg.Buffering.Buffer.BodyBytesMax())
	if err != nil {
		return slices.Repeat([]error{err}, len(tasks))
	}
	outgoing := make([]buffer.Outgoing, len(messages))
	for i, m := range messages {
		outgoing[i].Body = m.Body
	}
	sent := s.cfg.Buffering.Buffer.Send(ctx, outgoing)
	results := make([]error, 0, len(tasks))
	for i, m := range messages {
		outcome := errNoOutcome
		if i < len(sent) {
			outcome = sent[i]
		}
		results = append(results, slices.Repeat([]error{outcome}, m.Tasks)...)
	}
	return results
}

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
		return c.IsOpen() && c.OnlyWakeup() && c.Task.Enqueued.IsZero() && c.Task.Chain == nil && c.Task.Due > b.Now.Add(in.Near)
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

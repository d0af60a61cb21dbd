package sdk

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
)

// How ScheduleMany splits items into calls.
const (
	itemsPerCallMax = 1000
	bytesPerCallMax = 4 << 20
	callsAtOnceMax  = 4
	itemBytesAround = 128 // what an item adds to its payload
)

// Schedule schedules one task. When it returns without an error the task is durable.
func (c *Client) Schedule(ctx context.Context, item Item) (Result, error) {
	results, items := make([]Result, 1), []Item{item}
	ids := requestIDs(c.cfg.Clock, 1)
	begun := c.cfg.Clock.Now()
	encoded, large := c.prepare(ctx, items, ids, results)
	c.scheduleCall(ctx, newBatch(encoded, ids, results))
	c.putLateAgain(ctx, begun, large, results)
	explainSizes(items, encoded, results, c.cfg.Blobs != nil)
	return results[0], results[0].Err
}

// ScheduleMany schedules any number of tasks and returns a result for each, in order. The error is nil when
// all are durable. Otherwise it says how many are not and wraps the first error; the results have all of
// them.
func (c *Client) ScheduleMany(ctx context.Context, items []Item) ([]Result, error) {
	results := make([]Result, len(items))
	ids := requestIDs(c.cfg.Clock, len(items))
	begun := c.cfg.Clock.Now()
	encoded, large := c.prepare(ctx, items, ids, results)
	var g errgroup.Group
	g.SetLimit(callsAtOnceMax)
	for start := 0; start < len(items); {
		end := start + fitting(encoded[start:])
		b := newBatch(encoded[start:end], ids[start:end], results[start:end])
		g.Go(func() error {
			c.scheduleCall(ctx, b)
			return nil
		})
		start = end
	}
	_ = g.Wait() // errors are in the results
	c.putLateAgain(ctx, begun, large, results)
	explainSizes(items, encoded, results, c.cfg.Blobs != nil)
	return results, summary(results)
}

// fitting returns how many of the items, at least one, go into the next call.
func fitting(items []Item) int {
	size := 0
	for n := range min(len(items), itemsPerCallMax) {
		size += sizeOf(&items[n])
		if size > bytesPerCallMax {
			return max(n, 1)
		}
	}
	return min(len(items), itemsPerCallMax)
}

// sizeOf returns about how many bytes an item has in a call, with those that follow it.
func sizeOf(i *Item) int {
	size := len(i.Payload) + itemBytesAround
	for _, list := range [][]Item{i.Then, i.Else, i.Finally} {
		for n := range list {
			size += sizeOf(&list[n])
		}
	}
	return size
}

// summary returns one error for all results, nil if no task failed.
func summary(results []Result) error {
	failed, first := 0, 0
	for i := range results {
		if results[i].Err == nil {
			continue
		}
		if failed == 0 {
			first = i
		}
		failed++
	}
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d tasks were not scheduled; the first is item %d: %w", failed, len(results), first, results[first].Err)
}

// batch is the items of one call, and which of them have no answer yet.
type batch struct {
	items   []Item
	results []Result
	ids     [][]byte
	pending []int
	begun   time.Duration // monotonic time of the first try; zero before it
	again   bool          // the outcome of an earlier try is not known
}

// newBatch returns a batch of the items that have no error yet.
func newBatch(items []Item, ids [][]byte, results []Result) *batch {
	b := &batch{items: items, results: results, ids: ids, pending: make([]int, 0, len(items))}
	for i := range items {
		if results[i].Err == nil { //nolint:gosec // there is a result for each item
			b.pending = append(b.pending, i)
		}
	}
	return b
}

// scheduleCall sets a result for each item of a batch. Items that the server could not answer for are tried
// again with the same request id, so that no item makes two tasks.
func (c *Client) scheduleCall(ctx context.Context, b *batch) {
	if len(b.pending) == 0 {
		return
	}
	err := c.retry(ctx, "schedule", func(ctx context.Context) error {
		request := b.request(clock.Mono(c.cfg.Clock))
		response, err := once(ctx, c.cfg.Clock, c.cfg.CallTimeout, c.backend.tasks.Schedule, request)
		if err != nil {
			b.again = true
			return err
		}
		return b.take(response)
	})
	for _, i := range b.pending {
		if errors.Is(b.results[i].Err, ErrThrottled) && errors.Is(err, ErrThrottled) {
			err := fmt.Errorf("schedule: %w", b.results[i].Err) // its own says when
			b.results[i] = Result{Err: err}
			continue
		}
		b.results[i] = Result{Err: err}
	}
}

// request returns the request for the pending items. Delays count from the first try.
func (b *batch) request(now time.Duration) *kinesinv1.ScheduleRequest {
	if b.begun == 0 {
		b.begun = now
	}
	request := &kinesinv1.ScheduleRequest{
		Items: make([]*kinesinv1.ScheduleItem, len(b.pending)), Again: b.again, First: !b.again, Elapsed: (now - b.begun).Microseconds(),
	}
	for n, i := range b.pending {
		request.Items[n] = b.items[i].wire(b.ids[i])
	}
	return request
}

// take stores the answers. It returns the error of an item that has to be tried again, if there is one; of
// those that met a quota, the one that waits longest.
func (b *batch) take(response *kinesinv1.ScheduleResponse) error {
	if len(response.Results) != len(b.pending) {
		return api.Errorf(kinesinv1.Reason_REASON_INTERNAL, "the server answered for %d of %d tasks", len(response.Results), len(b.pending))
	}
	var unanswered error
	var throttled *api.Error
	still := b.pending[:0]
	for n, i := range b.pending {
		r := resultOf(response.Results[n])
		if errors.Is(r.Err, ErrUnavailable) {
			unanswered = r.Err
			still = append(still, i)
			continue
		}
		b.results[i] = r
		if refused, is := errors.AsType[*api.Error](r.Err); is && errors.Is(r.Err, ErrThrottled) {
			if still = append(still, i); throttled == nil || refused.RetryAfter > throttled.RetryAfter {
				throttled = refused
			}
		}
	}
	b.pending = still
	if unanswered != nil {
		b.again = true
		return unanswered
	}
	if throttled != nil {
		return throttled
	}
	return nil
}

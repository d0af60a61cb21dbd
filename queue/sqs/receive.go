package sqs

import (
	"context"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// Receive implements queue.Driver. It hands out prefetched tasks. While receivers wait for more, polls of
// their lanes fetch more.
func (d *Driver) Receive(ctx context.Context, names []queue.Name, limit int, ahead time.Duration) ([]queue.Message, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	now, steady := clock.Both(d.Clock)
	r := &receiver{names, limit, ahead, steady, make(chan []queue.Message, 1)}
	if got, err := d.prefetch.join(r, now, steady); len(got) > 0 || err != nil {
		return got, err
	}
	for _, l := range d.lanesOf(names) {
		l.tend()
	}
	return d.prefetch.await(ctx, r)
}

// lanesOf returns the lane of each name, once. It skips lambdas that this process does not know, and those in
// deliver mode, whose messages are not for workers.
func (d *Driver) lanesOf(names []queue.Name) []*lane {
	lanes := make([]*lane, 0, len(names))
	for _, n := range names {
		if l, err := d.laneFor(keyOf(n), task.Managed); err == nil && !slices.Contains(lanes, l) {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

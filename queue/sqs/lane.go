package sqs

import (
	"context"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/internal/gather"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/task"
)

// Requests in flight for one queue. Tasks that come meanwhile go together, in fewer and fuller messages:
// packing follows the load.
const (
	sendsInFlightMax   = 8
	deletesInFlightMax = 4
)

const (
	// aheadLinger is how long tasks that are not due for longer wait for others.
	aheadLinger = 40 * time.Millisecond
	// deleteLinger is how long deletes wait for others, since nobody waits for them.
	deleteLinger = time.Second
)

// laneFor returns the lane of a lambda's priority, if the lambda has that mode: Kinesin's tasks must not go
// to a queue that a consumer reads, nor deliveries to one of Kinesin's own.
func (d *Driver) laneFor(key laneKey, mode task.Mode) (*lane, error) {
	l, err := d.lane(key)
	if err == nil && l.mode != mode {
		return nil, fmt.Errorf("%w: lambda of %s has mode %s", ErrNoQueue, l.name, l.mode)
	}
	return l, err
}

// lane returns the lane of a lambda's priority; ErrNoQueue when this process knows no such lambda.
func (d *Driver) lane(key laneKey) (*lane, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l, found := d.lanes[key]; found {
		return l, nil
	}
	name, mode, err := d.queueName(key)
	if err != nil {
		return nil, err
	}
	for _, l := range d.lanes { // those of lambdas that are gone
		if _, found := d.Lambda(l.key.lambda); !found && !l.isPolled() {
			d.removeLane(l)
		}
	}
	l := newLane(d, key, name, mode)
	d.lanes[key] = l
	return l, nil
}

func (l *lane) isPolled() bool {
	wanted, _ := l.driver.prefetch.wanted(l.key)
	l.polls.mu.Lock()
	defer l.polls.mu.Unlock()
	return wanted > 0 || l.polls.running > 0
}

func newLane(d *Driver, key laneKey, name string, mode task.Mode) *lane {
	l := &lane{driver: d, key: key, name: name, mode: mode, polls: polls{tasksPerMessage: 1}}
	sends := gather.Config[*outgoing]{
		Clock: d.Clock, ItemsMax: sqsclient.BatchMax * d.PackTasksMax, SendsMax: sendsInFlightMax, Linger: d.Linger, LoneAtOnce: true,
		Send: func(_ context.Context, items []*outgoing) []error { return l.send(items) },
	}
	if mode == task.Deliver { // deliveries share requests, but not messages
		sends.ItemsMax, sends.Linger = sqsclient.BatchMax, d.DeliverLinger
	}
	if sqsclient.IsFIFO(name) { // which has the order in which requests arrive
		sends.SendsMax = 1
	}
	l.sends = gather.New(sends)
	sends.Linger, sends.LoneAtOnce = aheadLinger, false
	l.aheadSends = gather.New(sends)
	deletes := time.Duration(0)
	if d.Linger > 0 {
		deletes = deleteLinger
	}
	l.deletes = gather.New(gather.Config[string]{
		Clock: d.Clock, ItemsMax: sqsclient.BatchMax, SendsMax: deletesInFlightMax, Linger: deletes,
		Send: func(_ context.Context, handles []string) []error {
			l.logFailure("not deleted", d.client.Delete(d.ctx, l.name, handles))
			return make([]error, len(handles))
		},
	})
	l.hides = gather.New(gather.Config[sqsclient.Hidden]{
		Clock: d.Clock, ItemsMax: sqsclient.BatchMax, SendsMax: deletesInFlightMax, Linger: d.Linger, LoneAtOnce: true,
		Send: func(_ context.Context, messages []sqsclient.Hidden) []error {
			l.logFailure("visibility not changed", d.client.Hide(d.ctx, l.name, lastOfEach(messages)))
			return make([]error, len(messages))
		},
	})
	return l
}

// removeLane forgets a lane. Its messages and polls may still use it, so Close ends it. The caller holds the
// driver's mu.
func (d *Driver) removeLane(l *lane) {
	delete(d.lanes, l.key)
	d.removed = append(d.removed, l)
}

// close finishes the pending requests. Sends come first, since they end in deletes.
func (l *lane) close() {
	_ = l.sends.Close(context.Background())
	_ = l.aheadSends.Close(context.Background())
	_ = l.deletes.Close(context.Background())
	_ = l.hides.Close(context.Background())
}

package dispatcher

import (
	"context"
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// sendTriesMax and sendRetryEvery bound how long a message waits for room. After that its task, which is
// enqueued already, is sent again by its wake-up.
const (
	sendTriesMax   = 20
	sendRetryEvery = 50 * time.Millisecond
)

// Send puts messages on their queues, without any write, for tasks that are enqueued in the store.
func (d *Dispatcher) Send(ctx context.Context, tasks []task.Task) {
	messages := make([]queue.Message, len(tasks))
	for i := range tasks {
		messages[i].Task = tasks[i]
	}
	d.send(ctx, messages)
}

// send puts messages on their queues, and repeats those that failed for a bounded time, or until ctx ends. It returns the
// tasks whose messages are not on their queue, as far as is known; nil when all are.
func (d *Dispatcher) send(ctx context.Context, messages []queue.Message) map[task.ID]error {
	var failures []error
	for try := range sendTriesMax {
		if len(messages) == 0 {
			return nil
		}
		if try > 0 && d.waitToSend(ctx, queue.NameFor(&messages[0].Task), failures[0]) != nil {
			break
		}
		messages, failures = d.sendOnce(context.WithoutCancel(ctx), messages)
	}
	if len(messages) == 0 {
		return nil
	}
	if d.Hooks.Unsent != nil {
		d.Hooks.Unsent(len(messages))
	}
	unsent := make(map[task.ID]error, len(messages))
	for i := range messages {
		unsent[messages[i].Task.ID] = failures[i]
	}
	return unsent
}

// sendOnce sends messages once, and returns those that failed, and why.
func (d *Dispatcher) sendOnce(ctx context.Context, messages []queue.Message) (failed []queue.Message, failures []error) {
	now := d.Clock.Now()
	results := d.Queue.Send(ctx, messages)
	d.depths.countSent(messages, results)
	for i, err := range results {
		if err != nil {
			failed, failures = append(failed, messages[i]), append(failures, err)
			continue
		}
		if t := &messages[i].Task; d.Hooks.Lateness != nil && t.Attempt == 0 && t.Enqueues <= 1 {
			d.Hooks.Lateness(t, max(0, now.Sub(t.Due)))
		}
	}
	return failed, failures
}

// waitToSend waits before a retry: for room, if the queue was full.
func (d *Dispatcher) waitToSend(ctx context.Context, name queue.Name, failure error) error {
	timer := d.Clock.NewTimer(sendRetryEvery)
	defer timer.Stop()
	var room <-chan struct{} // never ready where the queue cannot tell
	if errors.Is(failure, queue.ErrFull) {
		room = d.Queue.Room(name)
	}
	select {
	case <-room:
	case <-timer.C():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

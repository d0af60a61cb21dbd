package sqs

import (
	"context"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// keptMax is how long a message in hand is kept from others.
const keptMax = 10 * time.Minute

func newPrefetch(answerMax time.Duration) *prefetch {
	return &prefetch{
		messages: map[string]*heldMessage{}, waiting: map[queue.Name][]*heldTask{}, taken: map[string]*heldTask{}, changed: make(chan struct{}, 1),
		asked: map[laneKey]task.Instant{}, answerMax: answerMax,
	}
}

// redelivered reports whether a message is held already. SQS then takes the handle of its latest delivery.
func (p *prefetch) redelivered(id, handle string, renewAt task.Instant) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, found := p.messages[id]
	if found {
		m.handle, m.renewAt = handle, renewAt
	}
	return found
}

// add takes a message with its tasks. now is wall time. It returns false when the driver is closed.
func (p *prefetch) add(m *heldMessage, tasks []task.Task, again bool, now task.Instant) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.messages[m.id] = m
	m.open = len(tasks)
	for i := range tasks {
		t := &heldTask{of: m, message: queue.Message{Task: tasks[i], Again: again}, since: m.received.Add(max(0, tasks[i].HeldUntil().Sub(now)))}
		m.tasks = append(m.tasks, t)
		p.insert(t)
	}
	p.wakeTimekeeper()
	return true
}

func (p *prefetch) wakeTimekeeper() {
	select {
	case p.changed <- struct{}{}:
	default:
	}
}

func (p *prefetch) insert(t *heldTask) {
	tasks := p.waiting[t.name()]
	i, _ := slices.BinarySearchFunc(tasks, t, func(a, b *heldTask) int {
		if a.due() <= b.due() {
			return -1
		}
		return 1
	})
	p.waiting[t.name()] = slices.Insert(tasks, i, t)
}

// release takes back tasks that were handed out.
func (p *prefetch) release(messages []queue.Message) []*heldTask {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.takeBack(messages)
}

func (p *prefetch) takeBack(messages []queue.Message) []*heldTask {
	tasks := make([]*heldTask, 0, len(messages))
	for i := range messages {
		if t := p.taken[messages[i].Receipt]; t != nil {
			p.untake(t)
			tasks = append(tasks, t)
		}
	}
	return tasks
}

func (p *prefetch) untake(t *heldTask) {
	delete(p.taken, t.receipt)
	t.receipt = ""
}

// finish marks tasks that were handed out as done, and returns the messages whose tasks are all done.
func (p *prefetch) finish(messages []queue.Message) (finished []*heldMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.takeBack(messages) {
		if m := p.end(t); m != nil {
			finished = append(finished, m)
		}
	}
	return finished
}

// finishTask marks a task that is not handed out as done. It returns the message when all its tasks are.
func (p *prefetch) finishTask(t *heldTask) *heldMessage {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.end(t)
}

func (p *prefetch) end(t *heldTask) *heldMessage {
	m := t.of
	if t.done || p.messages[m.id] != m {
		return nil
	}
	t.done = true
	if m.open--; m.open > 0 {
		return nil
	}
	p.drop(m)
	return m
}

// forget drops a message and changes nothing at SQS: it comes again.
func (p *prefetch) forget(m *heldMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(m)
}

// drop removes a message with its tasks, waiting or taken.
func (p *prefetch) drop(m *heldMessage) {
	if p.messages[m.id] == m {
		delete(p.messages, m.id)
	}
	for _, t := range m.tasks {
		if t.receipt != "" {
			p.untake(t)
			continue
		}
		name := t.name()
		left := slices.DeleteFunc(p.waiting[name], func(other *heldTask) bool { return other == t })
		if p.waiting[name] = left; len(left) == 0 {
			delete(p.waiting, name)
		}
	}
}

// removeWhole drops the messages all of whose tasks are among these, and returns the other tasks in rest.
func (p *prefetch) removeWhole(tasks []*heldTask) (messages []*heldMessage, rest []*heldTask) {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := map[*heldMessage]int{}
	for _, t := range tasks {
		count[t.of]++
	}
	for _, t := range tasks {
		m := t.of
		switch {
		case p.messages[m.id] != m: // dropped
		case count[m] == len(m.tasks):
			p.drop(m)
			messages = append(messages, m)
		default:
			rest = append(rest, t)
		}
	}
	return messages, rest
}

// removeWaiting removes and returns the tasks that were due and have waited here since before.
func (p *prefetch) removeWaiting(before task.Instant) (tasks []*heldTask) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, waiting := range p.waiting {
		left := slices.DeleteFunc(waiting, func(t *heldTask) bool {
			leaves := t.since < before
			if leaves {
				tasks = append(tasks, t)
			}
			return leaves
		})
		if p.waiting[name] = left; len(left) == 0 {
			delete(p.waiting, name)
		}
	}
	return tasks
}

// renew hides messages for longer. It drops those that were held for too long. The changes are queued under
// the lock, so that a message that is released next becomes visible after that.
func (p *prefetch) renew(now task.Instant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var messages []*heldMessage
	for _, m := range p.messages {
		switch {
		case m.renewAt >= now:
		case now.Sub(m.received) > keptMax:
			p.drop(m)
		default:
			m.renewAt = now.Add(visibility / 2)
			messages = append(messages, m)
		}
	}
	hide(messages, visibility)
}

// depth returns how many tasks of a name wait here and are in hand, and how long the oldest has waited.
func (p *prefetch) depth(name queue.Name, now task.Instant) (d queue.Depth) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.Visible = len(p.waiting[name])
	for _, t := range p.waiting[name] {
		d.Oldest = max(d.Oldest, now.Sub(t.since))
	}
	for _, t := range p.taken {
		if t.name() == name {
			d.InFlight++
		}
	}
	return d
}

// removeLambda drops the messages of a lambda and returns them.
func (p *prefetch) removeLambda(lambda uint32) (all []*heldMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.messages {
		if m.lane.key.lambda == lambda {
			p.drop(m)
			all = append(all, m)
		}
	}
	return all
}

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

package sqs

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// forever is later than every instant.
const forever = task.Instant(1<<63 - 1)

// join returns tasks that are due, or makes the receiver wait when there are none.
func (p *prefetch) join(r *receiver, now, steady task.Instant) ([]queue.Message, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, queue.ErrClosed
	}
	if got, _ := p.take(r, now, steady); len(got) > 0 {
		return got, nil
	}
	p.receivers = append(p.receivers, r)
	p.wakeTimekeeper()
	return nil, nil
}

// await returns what a receiver that joined is served.
func (p *prefetch) await(ctx context.Context, r *receiver) ([]queue.Message, error) {
	select {
	case got, open := <-r.got:
		return got, errUnless(open)
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.receivers, r); i >= 0 {
		p.receivers = slices.Delete(p.receivers, i, i+1)
		return nil, context.Cause(ctx)
	}
	got, open := <-r.got // it was served just now
	return got, errUnless(open)
}

func errUnless(open bool) error {
	if !open {
		return queue.ErrClosed
	}
	return nil
}

// wanted returns how many tasks of a lane the waiting receivers would take, and how many tasks wait here.
func (p *prefetch) wanted(key laneKey) (wanted, waiting int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.receivers {
		if slices.ContainsFunc(r.names, func(n queue.Name) bool { return keyOf(n) == key }) {
			wanted += r.limit
		}
	}
	for name, tasks := range p.waiting {
		if keyOf(name) == key {
			waiting += len(tasks)
		}
	}
	return wanted, waiting
}

// serve hands out tasks that are due, and returns when to look again. The caller holds the lock.
func (p *prefetch) serve(now, steady task.Instant) (next time.Duration) {
	next = time.Duration(forever)
	p.receivers = slices.DeleteFunc(p.receivers, func(r *receiver) bool {
		got, wait := p.take(r, now, steady)
		if len(got) > 0 {
			r.got <- got
			return true
		}
		if wait > 0 {
			next = min(next, wait)
		}
		for _, name := range r.names {
			if tasks := p.waiting[name]; len(tasks) > 0 && (wait == 0 || tasks[0].due() > now.Add(r.ahead)) {
				next = min(next, tasks[0].due().Add(-r.ahead/2).Sub(now))
			}
		}
		return false
	})
	return next
}

// take hands out up to a receiver's limit of tasks, once one of them is due within half of its look ahead. If
// it hands out none because a queue that comes first may yet answer, it returns how long to wait for that.
func (p *prefetch) take(r *receiver, now, steady task.Instant) (got []queue.Message, wait time.Duration) {
	isDue := func(name queue.Name, by task.Instant) bool {
		tasks := p.waiting[name]
		return len(tasks) > 0 && tasks[0].due() <= by
	}
	if !slices.ContainsFunc(r.names, func(name queue.Name) bool { return isDue(name, now.Add(r.ahead/2)) }) {
		return nil, 0
	}
	isReady := func(name queue.Name) bool { return isDue(name, now.Add(r.ahead)) }
	for i, name := range r.names {
		if len(got) == r.limit || !isReady(name) {
			continue
		}
		turn, before := p.turns.For(name, r.names), r.names[:i]
		if turn != nil {
			before = r.names
		}
		if left := p.answersIn(r, before, name, steady); left > 0 {
			wait = min(cmp.Or(wait, left), left)
			continue
		}
		for len(got) < r.limit && isReady(name) {
			from := name
			if turn != nil {
				from = turn.Next(isReady)
			}
			got = append(got, p.handOut(from))
		}
	}
	return got, wait
}

// answersIn returns how much longer a receiver waits before it takes from a queue, because one of the same
// lambda that comes before it may have messages: its poll has begun just now, or begins with this receiver.
// Otherwise the queue that answers first would be served first, whatever its priority.
func (p *prefetch) answersIn(r *receiver, before []queue.Name, name queue.Name, steady task.Instant) (left time.Duration) {
	if name.Class != queue.Normal {
		return 0
	}
	for _, first := range before {
		if first.Lambda != name.Lambda || first.Class != queue.Normal || len(p.waiting[first]) > 0 {
			continue
		}
		asked, isAsked := p.asked[keyOf(first)]
		if !isAsked {
			asked = r.since
		}
		left = max(left, min(asked, r.since).Add(p.answerMax).Sub(steady))
	}
	return left
}

// noteAsked notes that a poll of a lane begins; noteAnswer that one brought tasks, or that none goes on.
func (p *prefetch) noteAsked(key laneKey, steady task.Instant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, isAsked := p.asked[key]; !isAsked {
		p.asked[key] = steady
	}
}

func (p *prefetch) noteAnswer(key laneKey) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.asked, key)
}

func (p *prefetch) handOut(name queue.Name) queue.Message {
	t := p.waiting[name][0]
	p.waiting[name] = slices.Delete(p.waiting[name], 0, 1)
	p.receipts++
	t.receipt = strconv.FormatUint(p.receipts, 36)
	p.taken[t.receipt] = t
	m := t.message
	m.Receipt = t.receipt
	return m
}

// close ends all receivers. From then on add returns false.
func (p *prefetch) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, r := range p.receivers {
		close(r.got)
	}
	p.receivers = nil
}

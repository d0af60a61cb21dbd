package hsc

import (
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// deliver hands won claims to the writer. On a stream that is closed they go back to their queues.
func (st *stream) deliver(g *group, won []delivery) {
	if len(won) == 0 {
		return
	}
	sess := st.sess
	sess.mu.Lock()
	if !st.closed {
		for _, d := range won {
			d.hand.group = g
			if sess.put(d.hand) {
				st.outbox.tasks = append(st.outbox.tasks, d)
			}
		}
		sess.mu.Unlock()
		st.fill()
		return
	}
	sess.mu.Unlock()
	rows := make([]task.Task, len(won))
	for i, d := range won {
		rows[i] = *d.hand.row
	}
	st.svc.giveBack(st.ctx, sess, rows)
}

// sendAcks waits while too many acks are unsent, so that a worker that reports and never listens is not read any more.
func (st *stream) sendAcks(acks []*kinesinv1.ResultAck) {
	for {
		st.sess.mu.Lock()
		fits := len(st.outbox.acks) < acksAheadMax || st.outbox.finished
		if fits && !st.outbox.finished {
			if len(st.outbox.acks) == 0 {
				st.outbox.since = clock.Steady(st.svc.Clock)
			}
			st.outbox.acks = append(st.outbox.acks, acks...)
		}
		st.sess.mu.Unlock()
		st.fill()
		if fits {
			return
		}
		select {
		case <-st.taken:
		case <-st.ctx.Done():
			return
		}
	}
}

func (st *stream) sendCancels(attempts []attempt) {
	st.sess.mu.Lock()
	for _, a := range attempts {
		if len(st.outbox.cancels) < HeldMax && !st.outbox.finished { // the next heartbeat says it again
			st.outbox.cancels = append(st.outbox.cancels, wireHeld(a))
		}
	}
	st.sess.mu.Unlock()
	st.fill()
}

func (st *stream) finishOutbox() {
	st.sess.mu.Lock()
	st.outbox.finished = true
	st.sess.mu.Unlock()
	st.fill()
}

func (st *stream) fill() { poke(st.filled) }

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// write sends what is in the outbox, in as few messages as possible, until the outbox is finished and
// empty. The first message is sent at once: it says that the stream is open, and what the time is.
func (st *stream) write() {
	if !st.send(&kinesinv1.WorkResponse{}) {
		return
	}
	linger := st.svc.Clock.NewTimer(acksLinger)
	defer linger.Stop()
	for {
		response, wait, finished := st.next()
		switch {
		case response != nil:
			if !st.send(response) {
				return
			}
			continue
		case finished:
			return
		case wait > 0:
			linger.Reset(wait)
		}
		select {
		case <-st.filled:
		case <-linger.C():
		}
	}
}

func (st *stream) send(response *kinesinv1.WorkResponse) bool {
	now := st.svc.Clock.Now()
	response.NowMicros = int64(now)
	for _, c := range response.Tasks {
		hold(c, now)
	}
	if err := st.conn.Send(response); err != nil {
		st.stop(err)
		return false
	}
	return true
}

// next takes a message's worth from the outbox; nil when it is empty, or has only acks, which nobody is in
// a hurry for: then wait is how long they wait for something to go with. On a stream that was stopped
// it leaves the tasks: they go back.
func (st *stream) next() (response *kinesinv1.WorkResponse, wait time.Duration, finished bool) {
	stopped := st.ctx.Err() != nil
	st.sess.mu.Lock()
	defer st.sess.mu.Unlock()
	o := &st.outbox
	if o.empty() || st.closed || (stopped && len(o.acks)+len(o.cancels) == 0) {
		return nil, 0, o.finished
	}
	if wait := st.ackWait(); wait > 0 && !stopped {
		return nil, wait, false
	}
	response = &kinesinv1.WorkResponse{Acks: o.acks, Cancels: o.cancels}
	o.acks, o.cancels = nil, nil
	if !stopped {
		response.Tasks = o.takeTasks()
	}
	if len(o.tasks) > 0 {
		st.fill()
	}
	poke(st.taken)
	return response, 0, false
}

// ackWait is how long the outbox may wait because it has only acks, and few. Call with mu held.
func (st *stream) ackWait() time.Duration {
	o := &st.outbox
	if len(o.tasks)+len(o.cancels) > 0 || len(o.acks) >= acksFlush || st.draining || o.finished {
		return 0
	}
	return acksLinger - clock.Steady(st.svc.Clock).Sub(o.since)
}

// takeTasks takes as many tasks as fit one message and marks them as sent.
func (o *outbox) takeTasks() []*kinesinv1.Claimed {
	tasks := make([]*kinesinv1.Claimed, 0, min(len(o.tasks), tasksPerMessage))
	size := 0
	for _, d := range o.tasks {
		if len(tasks) == tasksPerMessage || (size > 0 && size+len(d.wire.Payload) > bytesPerMessage) {
			break
		}
		size += len(d.wire.Payload)
		d.hand.sent = true
		tasks = append(tasks, d.wire)
	}
	o.tasks = o.tasks[len(tasks):]
	if len(o.tasks) == 0 {
		o.tasks = nil
	}
	return tasks
}

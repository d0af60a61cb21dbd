package hsc

import (
	"slices"
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

// sendAcks waits while too many acks are unsent, so that a worker that reports and never listens is not read
// any more.
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
	silence := st.silence()
	defer silence.Stop()
	for {
		st.withdrawOld()
		response, wait, finished := st.next()
		switch {
		case response != nil:
			if !st.send(response) {
				return
			}
			st.rearm(silence)
			continue
		case finished:
			return
		case wait > 0:
			linger.Reset(wait)
		}
		select {
		case <-st.filled:
		case <-linger.C():
		case <-silence.C():
			if !st.send(&kinesinv1.WorkResponse{}) {
				return
			}
			st.rearm(silence)
		}
	}
}

// silence is a timer for when the stream has said nothing for long enough.
func (st *stream) silence() clock.Timer {
	timer := st.svc.Clock.NewTimer(time.Hour)
	timer.Stop()
	st.rearm(timer)
	return timer
}

func (st *stream) rearm(silence clock.Timer) {
	if most := st.svc.Silence; most > 0 {
		silence.Reset(most)
	}
}

// withdrawOld gives back what waited in the outbox for so long that it may be taken for lost before the
// worker can say that it runs.
func (st *stream) withdrawOld() {
	now := st.svc.Clock.Now()
	rows := st.withdraw(func(t *task.Task) bool { return claimedBefore(t, now, confirmAfter) })
	if len(rows) > 0 {
		st.svc.aside(func() { st.svc.giveBack(st.ctx, st.sess, rows) })
	}
}

// withdraw takes those tasks out of the outbox for which it is so, and returns their rows.
func (st *stream) withdraw(is func(*task.Task) bool) (rows []task.Task) {
	sess := st.sess
	sess.mu.Lock()
	defer sess.mu.Unlock()
	st.outbox.tasks = slices.DeleteFunc(st.outbox.tasks, func(d delivery) bool {
		if !is(d.hand.row) {
			return false
		}
		if sess.hands[d.hand.row.ID] == d.hand {
			d.hand.settle()
			delete(sess.hands, d.hand.row.ID)
			rows = append(rows, *d.hand.row)
		}
		return true
	})
	return rows
}

func (st *stream) send(response *kinesinv1.WorkResponse) bool {
	now := st.svc.Clock.Now()
	response.NowMicros, response.NextMicros = int64(now), st.svc.Silence.Microseconds()
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

package hsc

import (
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

const (
	acksAheadMax    = 8192 // acks not yet sent
	acksFlush       = 256  // acks that are sent without waiting for more
	acksLinger      = 20 * time.Millisecond
	tasksPerMessage = 512
	bytesPerMessage = 1 << 20 // payload bytes, above which no further task is added
)

// sendAcks waits while too many acks are unsent, so that a worker that reports and never reads is not read
// any more.
func (st *stream) sendAcks(acks []*kinesinv1.ResultAck) {
	for {
		st.sess.mu.Lock()
		o := &st.outbox
		fits := len(o.acks) < acksAheadMax || o.finished
		if fits && !o.finished {
			if len(o.acks) == 0 {
				o.since = clock.Steady(st.svc.Clock)
			}
			o.acks = append(o.acks, acks...)
		}
		st.sess.mu.Unlock()
		st.wakeWriter()
		if fits {
			return
		}
		select {
		case <-st.outboxTaken:
		case <-st.ctx.Done():
			return
		}
	}
}

// sendCancel tells the worker to stop an attempt. If it does not fit, the next heartbeat tells.
func (st *stream) sendCancel(a attempt) {
	st.sess.mu.Lock()
	if len(st.outbox.cancels) < HeldMax && !st.outbox.finished {
		st.outbox.cancels = append(st.outbox.cancels, wireHeld(a))
	}
	st.sess.mu.Unlock()
	st.wakeWriter()
}

func (st *stream) finishOutbox() {
	st.sess.mu.Lock()
	st.outbox.finished = true
	st.sess.mu.Unlock()
	st.wakeWriter()
}

func (st *stream) wakeWriter() { wake(st.outboxReady) }

// write sends what is in the outbox, in as few messages as possible, until the outbox is finished and empty.
// It sends the first message at once, empty, to say that the stream is open and what the time is.
func (st *stream) write() {
	linger, silence := st.svc.Clock.NewTimer(acksLinger), st.svc.Clock.NewTimer(time.Hour)
	defer linger.Stop()
	defer silence.Stop()
	silence.Stop()
	for response := (&kinesinv1.WorkResponse{}); ; {
		if response != nil {
			if !st.send(response) {
				return
			}
			if most := st.svc.Silence; most > 0 {
				silence.Reset(most)
			}
		}
		var wait time.Duration
		var finished bool
		if response, wait, finished = st.next(); response != nil {
			continue
		}
		if finished {
			return
		}
		if wait > 0 {
			linger.Reset(wait)
		}
		select {
		case <-st.outboxReady:
		case <-linger.C():
		case <-silence.C():
			response = &kinesinv1.WorkResponse{}
		}
	}
}

func (st *stream) send(response *kinesinv1.WorkResponse) bool {
	now := st.svc.Clock.Now()
	response.Now, response.Next = int64(now), st.svc.Silence.Microseconds()
	for _, c := range response.Tasks {
		hold(c, now)
	}
	if err := st.conn.Send(response); err != nil {
		st.stop(err)
		return false
	}
	return true
}

// next takes the next message from the outbox; nil when there is none. Then wait is how long to wait for it,
// 0 if only something new brings one, and finished says that nothing will.
func (st *stream) next() (response *kinesinv1.WorkResponse, wait time.Duration, finished bool) {
	stopped, now := st.ctx.Err() != nil, st.svc.Clock.Now()
	st.sess.mu.Lock()
	response, wait, old := st.takeMessage(stopped, now)
	finished = st.outbox.finished
	st.sess.mu.Unlock()
	if len(old) > 0 {
		st.svc.inBackground(func() { st.svc.release(st.ctx, st.sess, old) })
	}
	return response, wait, finished
}

// takeMessage takes a message's worth from the outbox. Acks wait for more unless they go with something else.
// On a stream that was stopped it leaves the tasks, which are released. old are tasks to be released already.
// Call with session.mu held.
func (st *stream) takeMessage(stopped bool, now task.Instant) (response *kinesinv1.WorkResponse, wait time.Duration, old []task.Task) {
	if st.closed {
		return nil, 0, nil
	}
	o := &st.outbox
	var tasks []*kinesinv1.Claimed
	if !stopped {
		var late []delivery
		tasks, late = o.takeTasks(now)
		old = st.sess.withdraw(late)
	}
	if len(tasks)+len(o.cancels) == 0 {
		if len(o.acks) == 0 {
			return nil, 0, old
		}
		if wait := st.ackWait(); wait > 0 && !stopped {
			return nil, wait, old
		}
	}
	response = &kinesinv1.WorkResponse{Tasks: tasks, Acks: o.acks, Cancels: o.cancels}
	o.acks, o.cancels = nil, nil
	if len(o.tasks) > 0 {
		st.wakeWriter()
	}
	wake(st.outboxTaken)
	return response, 0, old
}

// ackWait returns how long acks wait for more. Call with session.mu held.
func (st *stream) ackWait() time.Duration {
	if o := &st.outbox; len(o.acks) >= acksFlush || st.draining || o.finished {
		return 0
	}
	return acksLinger - clock.Steady(st.svc.Clock).Sub(st.outbox.since)
}

// takeTasks takes as many tasks as fit one message and marks them as sent. late are the tasks among them that
// waited for so long that they may be taken for lost before the worker can say that it runs them.
func (o *outbox) takeTasks(now task.Instant) (tasks []*kinesinv1.Claimed, late []delivery) {
	size, taken := 0, 0
	for _, d := range o.tasks {
		if len(tasks) == tasksPerMessage || (size > 0 && size+len(d.wire.Payload) > bytesPerMessage) {
			break
		}
		taken++
		if claimedBefore(d.row, now, confirmAfter) {
			late = append(late, d)
			continue
		}
		size += len(d.wire.Payload)
		d.sent = true
		tasks = append(tasks, d.wire)
	}
	if o.tasks = o.tasks[taken:]; len(o.tasks) == 0 {
		o.tasks = nil
	}
	return tasks, late
}

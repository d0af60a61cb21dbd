package hsc

import (
	"github.com/kinesin-io/kinesin/task"
)

// releaseUnheldSuspect clears a suspect that an earlier run of this HSC, or another one, left in the lease.
func (st *stream) releaseUnheldSuspect() {
	st.sess.mu.Lock()
	id := st.sess.suspect.id
	held := st.sess.assigned[id] != nil
	underWay := !st.sess.suspect.claimed // on the stream before this one
	st.sess.mu.Unlock()
	if !held && !underWay {
		st.svc.suspectDone(st.sess, id)
	}
}

// drain stops the claiming, and the batching of acks, because a worker that stops waits for them.
func (st *stream) drain() {
	defer st.wakeWriter()
	st.sess.mu.Lock()
	defer st.sess.mu.Unlock()
	st.draining = true
	for _, g := range st.groups {
		g.pollAgain()
	}
}

// close ends the stream.
func (st *stream) close() {
	st.detach()
	st.stop(errStreamDone)
	st.serves(st.svc.Waiting.Remove)
	st.sess.mu.Lock()
	st.closed = true
	if st.sess.stream == st {
		st.sess.stream = nil
	}
	st.sess.mu.Unlock()
	st.releaseUnsent()
}

// releaseUnsent puts tasks that were claimed for the stream and not sent back into their queues.
func (st *stream) releaseUnsent() {
	st.sess.mu.Lock()
	rows := st.sess.withdraw(st.outbox.tasks)
	st.outbox.tasks = nil
	st.sess.mu.Unlock()
	st.svc.release(st.ctx, st.sess, rows)
}

// deliver hands won claims to the writer. On a stream that is closed they go back to their queues.
func (st *stream) deliver(g *slotGroup, won []delivery) {
	if len(won) == 0 {
		return
	}
	sess := st.sess
	sess.mu.Lock()
	if st.closed {
		sess.mu.Unlock()
		st.svc.release(st.ctx, sess, rowsOf(won))
		return
	}
	for _, d := range won {
		d.group = g
		if sess.assign(d.assignment) {
			st.outbox.tasks = append(st.outbox.tasks, d)
		}
	}
	sess.mu.Unlock()
	st.wakeWriter()
}

func rowsOf(won []delivery) []task.Task {
	rows := make([]task.Task, len(won))
	for i, d := range won {
		rows[i] = *d.row
	}
	return rows
}

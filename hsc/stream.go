package hsc

import (
	"context"
	"errors"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// Limits of a stream.
const (
	GroupsMax  = api.GroupsMax  // slot groups of a process
	LambdasMax = api.LambdasMax // lambdas of a slot group
	SlotsMax   = 10_000         // of all slot groups together
	// HeldMax is how many attempts a process names: all it can get, and as many results that were not
	// acknowledged.
	HeldMax = 2 * (SlotsMax + GroupsMax*prefetchMax)
	_       = uint(api.HeldMax - HeldMax) // does not compile if the wire allows fewer
)

// SilenceDefault is the longest time between two messages of a stream. A worker waits for twice as long.
// Whatever it gets by then was claimed confirmAfter before at most, and so is named in a heartbeat before
// anybody takes it for lost (task.ClaimTimeout).
const SilenceDefault = 2 * time.Second

// conn is the server's side of a Work stream.
type conn interface {
	Receive() (*kinesinv1.WorkRequest, error)
	Send(response *kinesinv1.WorkResponse) error
}

// stream is one Work call. One goroutine reads, one stores reports, one writes, and one for each slot group
// claims.
type stream struct {
	svc     *Service
	sess    *session
	conn    conn
	groups  []*slotGroup
	process Process // at the other end, nil when it cannot be seen from here

	ctx    context.Context //nolint:containedctx // the life of the stream, which other calls may end
	stop   context.CancelCauseFunc
	detach func() bool // from the end of the service

	requests chan *kinesinv1.WorkRequest // read and not yet stored; closed by the reader
	batch    reportBatch                 // used by storeReports alone

	// Guarded by session.mu.
	draining bool // no more tasks are to be claimed
	closed   bool // nothing more of the outbox is sent
	outbox   outbox

	outboxReady chan struct{} // holds one value when the outbox has something or is finished
	outboxTaken chan struct{} // holds one value when the writer took from the outbox
}

// Work serves one stream of a worker until the worker closes it, its lease ends, another stream of it takes
// over, or the service stops.
func (s *Service) Work(ctx context.Context, c *connect.BidiStream[kinesinv1.WorkRequest, kinesinv1.WorkResponse]) error {
	return s.serveStream(ctx, c)
}

func (s *Service) serveStream(ctx context.Context, c conn) error {
	if err := s.begin(); err != nil {
		return err
	}
	defer s.end()
	first, err := c.Receive()
	if err != nil {
		return err
	}
	st, err := s.open(ctx, c, first.GetHello())
	if err != nil {
		return err
	}
	return st.run(first)
}

// run serves the stream. It ends in the direction the work flows: it claims no more, stores all reports that
// were read, and sends what is left in the outbox.
func (st *stream) run(first *kinesinv1.WorkRequest) error {
	if st.process != nil {
		defer st.svc.calls.Go(st.watchProcess)
	}
	defer st.close()
	st.releaseUnheldSuspect()
	st.svc.subscriptions.add(st)
	st.requests <- &kinesinv1.WorkRequest{Results: first.GetResults(), Started: first.GetStarted()}
	if first.GetDrain() {
		st.drain()
	}
	st.wakeWriter()          // for what the take-over has to say
	st.svc.calls.Go(st.read) // ends when the call has returned, at the latest
	var claiming, recording, writing sync.WaitGroup
	for _, g := range st.groups {
		claiming.Go(func() { st.claimFor(g) })
	}
	recording.Go(st.storeReports)
	writing.Go(st.write)
	recording.Wait()
	st.drain()
	st.stop(errStreamDone)
	claiming.Wait()
	st.finishOutbox()
	st.releaseUnsent() // without waiting for the writer, which may hang until the connection breaks
	writing.Wait()
	err := context.Cause(st.ctx)
	if errors.Is(err, errStreamDone) {
		return nil
	}
	return err
}

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
	st.svc.subscriptions.remove(st)
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

// delivery is a won claim as it goes to the worker.
type delivery struct {
	*assignment

	wire *kinesinv1.Claimed
}

func rowsOf(won []delivery) []task.Task {
	rows := make([]task.Task, len(won))
	for i, d := range won {
		rows[i] = *d.row
	}
	return rows
}

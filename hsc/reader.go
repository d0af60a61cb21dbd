package hsc

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

const (
	requestsAheadMax = 64   // messages read and not yet stored
	reportsBatchMax  = 4096 // reports stored together
)

// read receives the messages of the worker. A slot is free as soon as the result of its attempt is here.
func (st *stream) read() {
	defer close(st.requests)
	for {
		request, err := st.conn.Receive()
		if err != nil {
			st.drain()
			if !errors.Is(err, io.EOF) { // it broke rather than being closed
				st.stop(err)
			}
			return
		}
		if request.GetDrain() {
			st.drain()
		}
		st.freeSlots(request.GetResults(), task.Micros(request.GetLongest()))
		select {
		case st.requests <- request:
		case <-st.ctx.Done():
			return
		}
	}
}

// freeSlots frees the slots of attempts whose handlers ran for the longest time at most, if the worker says it; 0: it does not.
func (st *stream) freeSlots(results []*kinesinv1.Result, longest time.Duration) {
	if len(results) == 0 {
		return
	}
	now := st.svc.Clock.Now()
	st.sess.mu.Lock()
	defer st.sess.mu.Unlock()
	for _, r := range results {
		id, _ := idOf(r.GetTask())
		if a := st.sess.find(attempt{id, r.GetAttempt()}); a != nil {
			if a.group != nil {
				a.group.durations.add(task.Instant(r.GetStarted()), now, longest)
			}
			a.received()
		}
	}
}

// storeReports stores the reports of the messages that were read, in batches, until the reader has ended or the stream is
// stopped; then it stores the rest.
func (st *stream) storeReports() {
	for {
		select {
		case request, more := <-st.requests:
			if !more {
				return
			}
			st.storeBatch(request)
		case <-st.ctx.Done():
			for request, more := st.nextRequest(); more; request, more = st.nextRequest() {
				st.storeBatch(request)
			}
			return
		}
	}
}

// storeBatch stores the reports of a message and of those that have come in meanwhile.
func (st *stream) storeBatch(request *kinesinv1.WorkRequest) {
	results, started := request.GetResults(), request.GetStarted()
	for len(results)+len(started) < reportsBatchMax {
		next, more := st.nextRequest()
		if !more {
			break
		}
		results, started = append(results, next.GetResults()...), append(started, next.GetStarted()...)
	}
	if len(results)+len(started) == 0 {
		return
	}
	st.sendAcks(st.svc.setResults(context.WithoutCancel(st.ctx), st.sess, &st.batch, results, started))
}

// nextRequest returns a message that has come in; false when there is none.
func (st *stream) nextRequest() (*kinesinv1.WorkRequest, bool) {
	select {
	case request, more := <-st.requests:
		return request, more
	default:
		return nil, false
	}
}

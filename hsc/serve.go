package hsc

import (
	"context"
	"errors"
	"sync"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

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
	st.serves(st.svc.Waiting.Add)
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

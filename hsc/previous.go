package hsc

import (
	"context"
	"log/slog"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// endPrevious ends a lease that its process gives up while it registers anew, because nothing runs under it
// any more. What came of its attempts is stored as far as they still own their tasks, which they do while
// nobody took those back; the others go back to their queues, and nobody is charged. A call that fails may be
// made again.
func (s *Service) endPrevious(ctx context.Context, p *kinesinv1.PreviousLease) ([]*kinesinv1.ResultAck, error) {
	if p == nil {
		return nil, nil
	}
	worker, results := p.GetWorker(), p.GetResults()
	if worker == "" {
		return nil, errNoWorker
	}
	if n := len(results); n > ResultsMax {
		return nil, invalid("%d results of the previous lease: want at most %d", n, ResultsMax)
	}
	if !s.Sealer.IsLeaseProof(worker, p.GetProof()) {
		// No reason to refuse the new lease: the store that knew the old one may be gone.
		s.Log.WarnContext(ctx, "a lease was given up without its proof, it runs out by itself", slog.String("worker", worker))
		return fenceAll(results), nil
	}
	sess, err := s.reporter(worker)
	if err != nil {
		return nil, err
	}
	sess.giveUpStream()
	acks := s.setResults(context.WithoutCancel(ctx), sess, &batch{awaited: true}, results, nil)
	for _, ack := range acks {
		if ack.GetProblem().GetReason() == kinesinv1.Reason_REASON_UNAVAILABLE {
			return nil, s.unavailable(ctx, "store the results of the previous lease", errBusy)
		}
	}
	left := s.takeFound(sess) // which looks at the hands
	s.giveBack(ctx, sess, append(left, sess.giveUpHands()...))
	if err := s.Leases.Leave(ctx, worker); err != nil {
		return nil, s.leaseProblem(ctx, worker, err)
	}
	s.mu.Lock()
	delete(s.sessions, worker)
	s.mu.Unlock()
	s.Hooks.leaseLeft(worker)
	s.Log.InfoContext(ctx, "a worker gave its lease up and registers anew", slog.String("worker", worker), slog.Int("results", len(results)))
	return acks, nil
}

// fenceAll refuses results.
func fenceAll(results []*kinesinv1.Result) []*kinesinv1.ResultAck {
	acks := make([]*kinesinv1.ResultAck, len(results))
	for i, r := range results {
		acks[i] = &kinesinv1.ResultAck{
			Task: r.GetTask(), Attempt: r.GetAttempt(), Problem: fencedProblem("this is not the proof of the lease that they are of"),
		}
	}
	return acks
}

// giveUpStream lets nothing more go out on the stream of a worker that has gone on to another lease: what it
// was not sent yet, and what is being claimed for it, goes back.
func (s *session) giveUpStream() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
	if s.stream != nil {
		s.stream.closed = true
		s.stream.stop(errSuperseded)
	}
}

// giveUpHands empties the hands of a worker that has said all there is to say of its attempts: what is left
// never reached it.
func (s *session) giveUpHands() (rows []task.Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hands {
		if !h.freed {
			rows = append(rows, *h.row)
		}
		h.settle()
	}
	clear(s.hands)
	return rows
}

package hsc

import (
	"context"
	"log/slog"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// endPrevious ends the lease that a process gives up while it registers anew, because nothing runs under it
// any more. It stores the results of attempts that still own their tasks; the other tasks go back to their
// queues, and nobody is charged. A call that fails may be repeated.
func (s *Service) endPrevious(ctx context.Context, p *kinesinv1.PreviousLease) ([]*kinesinv1.ResultAck, error) {
	if p == nil {
		return nil, nil
	}
	worker, results := p.GetWorker(), p.GetResults()
	if n := len(results); n > ResultsMax {
		return nil, invalid("%d results of the previous lease: want at most %d", n, ResultsMax)
	}
	sess, err := s.reporter(worker)
	if err != nil {
		return nil, err
	}
	if _, err := s.Sealer.Ring().Leases().Open(ctx, worker, p.GetProof()); err != nil {
		// No reason to refuse the new lease: the store that knew the old one may be gone.
		s.Log.WarnContext(ctx, "previous lease given up without its proof; leaving it to run out", slog.String("worker", worker), slog.Any("error", err))
		return fenceAll(results), nil
	}
	sess.closeStream()
	acks := s.setResults(context.WithoutCancel(ctx), sess, &reportBatch{awaited: true}, results, nil)
	for _, ack := range acks {
		if ack.GetProblem().GetReason() == kinesinv1.Reason_REASON_UNAVAILABLE {
			return nil, s.unavailable(ctx, "store the results of the previous lease", errBusy)
		}
	}
	left := s.unheldClaims(sess) // before withdrawAll, because it looks at the assignments
	s.release(ctx, sess, append(left, sess.withdrawAll()...))
	if err := s.Leases.Leave(ctx, worker); err != nil {
		return nil, s.leaseProblem(ctx, worker, err)
	}
	s.removeSession(worker, errSuperseded)
	s.Log.InfoContext(ctx, "worker gave up its lease and registers again", slog.String("worker", worker), slog.Int("results", len(results)))
	return acks, nil
}

// fenceAll refuses results.
func fenceAll(results []*kinesinv1.Result) []*kinesinv1.ResultAck {
	acks := make([]*kinesinv1.ResultAck, len(results))
	for i, r := range results {
		acks[i] = &kinesinv1.ResultAck{
			Task: r.GetTask(), Attempt: r.GetAttempt(), Problem: fencedProblem("the proof is not that of the lease that the result belongs to"),
		}
	}
	return acks
}

// closeStream closes the stream of a worker that has gone on to another lease. Tasks that were not sent, or are being
// claimed for the stream, go back to their queues.
func (s *session) closeStream() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = true
	if s.stream != nil {
		s.stream.closed = true
		s.stream.stop(errSuperseded)
	}
}

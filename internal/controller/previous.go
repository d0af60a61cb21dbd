package controller

import (
	"slices"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// keptMax bounds the results that outlive their lease: a server takes no more in one call.
	keptMax      = 10_000
	releasedLost = "the worker's lease was lost before it started"
)

// keepResults keeps the results of all attempts whose handlers do not run, those that have ended first. Call
// with mu held, after the handlers were told to stop.
func (s *session) keepResults() {
	var unstarted []*attempt
	for _, a := range s.inOrder() {
		switch {
		case a.state == running:
			continue
		case a.dropped:
		case a.state == ended:
			s.kept = append(s.kept, a)
		default:
			unstarted = append(unstarted, a)
		}
		s.forget(a)
	}
	for _, a := range unstarted {
		a.end(Outcome{Kind: task.OutcomeReleased, Error: releasedLost})
	}
	s.kept = append(s.kept, unstarted...)
	s.kept = slices.Clip(s.kept[:min(len(s.kept), keptMax)])
}

// previous returns the lease of a lost session for the next registration, which gives it up: nothing runs
// under it any more, or the process would have ended. A server that gave no proof does not know how to take
// it.
func (s *session) previous() *kinesinv1.PreviousLease {
	if s == nil || len(s.proof) == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &kinesinv1.PreviousLease{Worker: s.worker, Proof: s.proof}
	for _, a := range s.kept {
		p.Results = append(p.Results, a.result)
	}
	return p
}

// concludeKept handles the acks of the results that were kept.
func (s *session) concludeKept(acks []*kinesinv1.ResultAck) {
	if s == nil {
		return
	}
	defer s.callFenced()
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := make(map[key]*kinesinv1.Problem)
	for _, ack := range acks {
		if k, ok := keyOf(ack.Task, ack.Attempt); ok && ack.Problem != nil {
			refused[k] = ack.Problem
		}
	}
	for _, a := range s.kept {
		if p := refused[a.key]; p != nil {
			s.refused(a, p)
		}
	}
	s.kept = nil
}

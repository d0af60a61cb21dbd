package hsc

import (
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

const (
	reportsKeptMax = 512 // reports for which a batch keeps its memory
	writesPerEnd   = 2   // of an attempt that ends its task
)

// reset forgets the tasks of the last use, and keeps the memory unless there is much of it.
func (b *reportBatch) reset() {
	if len(b.reports) > reportsKeptMax {
		*b = reportBatch{awaited: b.awaited}
		return
	}
	clear(b.reports)
	clear(b.ops)
	b.reports, b.ops = b.reports[:0], b.ops[:0]
}

// setResults stores results and starts, and returns the acks of the results.
func (s *Service) setResults(ctx context.Context, sess *session, b *reportBatch, results []*kinesinv1.Result, started []*kinesinv1.Started) []*kinesinv1.ResultAck {
	defer b.reset()
	b.reports = slices.Grow(b.reports, len(results)+len(started))
	b.ops = slices.Grow(b.ops, writesPerEnd*len(results)+len(started))
	acks := make([]*kinesinv1.ResultAck, len(results))
	for _, r := range started {
		if rep, ok := startOf(r); ok {
			b.reports = append(b.reports, rep)
		}
	}
	next := len(b.reports)
	for i, r := range results {
		rep, problem := finishOf(r)
		if problem != nil {
			acks[i] = &kinesinv1.ResultAck{Task: r.GetTask(), Attempt: r.GetAttempt(), Problem: problem}
			continue
		}
		b.reports = append(b.reports, rep)
	}
	sess.fillRows(b.reports)
	s.recordBatch(ctx, sess, b)
	for i := range acks {
		if acks[i] == nil {
			acks[i] = wireAck(b.reports[next].attempt, b.reports[next].problem)
			next++
		}
	}
	return acks
}

// fillRows spares the reading of rows that are as this process last stored them.
func (s *session) fillRows(reports []report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range reports {
		if a := s.find(reports[i].attempt); a != nil {
			reports[i].row = a.row
		}
	}
}

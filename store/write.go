package store

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Apply performs conditional writes, each atomic by itself, and returns a result for each: nil (applied and
// durable; with Op.Lazy durable soon), *ConflictError, ErrFull, ErrTooLarge, ErrMalformed, ErrSkipped when it
// follows a write that does not hold, or ErrUnknown when its outcome could not be found out. A write that
// follows an unknown write is unknown too. results has an entry for every op even if err is not nil; err is
// the reason for the unknown ones.
//
// Apply reads back writes with an unknown outcome. A row that is exactly as written counts as written by this
// call, a row that is gone as deleted by it, and any other row is a conflict. So two callers that write the
// same bytes at the same time may, under faults, both be told that they did.
func (s *Store) Apply(ctx context.Context, ops []Op) (results []error, err error) {
	defer s.observe(ctx, "apply", len(ops), clock.Steady(s.cfg.Clock), &err)
	refused := s.check(ops)
	if refused == nil {
		return s.apply(ctx, ops)
	}
	good, at := make([]Op, 0, len(ops)), make([]int, 0, len(ops))
	for i := range ops {
		if refused[i] == nil {
			good, at = append(good, ops[i]), append(at, i)
		}
	}
	answers, err := s.apply(ctx, good)
	for i, answer := range answers {
		refused[at[i]] = answer
	}
	return refused, err
}

// Writer writes rows, as Store does.
type Writer interface {
	Apply(ctx context.Context, ops []Op) ([]error, error)
}

// Outcomes performs writes and returns the outcome of each. It is valid by itself, also when others are
// unknown; an error of the whole call is the outcome of those that have none.
func Outcomes(ctx context.Context, w Writer, ops []Op) []error {
	outcomes, err := w.Apply(ctx, ops)
	for len(outcomes) < len(ops) {
		outcomes = append(outcomes, err)
	}
	return outcomes
}

// apply passes checked ops to the driver in parts within its limits.
func (s *Store) apply(ctx context.Context, ops []Op) ([]error, error) {
	n := partLen(ops)
	if n == len(ops) {
		return s.applyPart(ctx, ops)
	}
	results := make([]error, 0, len(ops))
	var errs []error
	for len(ops) > 0 {
		n = partLen(ops)
		part, err := s.applyPart(ctx, ops[:n])
		results, errs = append(results, part...), append(errs, err)
		ops = ops[n:]
	}
	return results, errors.Join(errs...)
}

// partLen returns how many of the first ops fit into one call. It does not separate ops that follow each
// other.
func partLen(ops []Op) int {
	size := 0
	for i := range ops {
		size += len(ops[i].Payload) + len(ops[i].Task.Payload) + len(ops[i].Control.Value)
		if i == ApplyMax || (i > 0 && size > ApplyBytesMax) {
			return chainEdge(ops, i)
		}
	}
	return len(ops)
}

// chainEdge returns the last edge between chains at or before i. If that is the head of the list, it returns
// the first edge after i.
func chainEdge(ops []Op, i int) int {
	edge := i
	for edge > 0 && ops[edge].Follows {
		edge--
	}
	if edge > 0 {
		return edge
	}
	for i < len(ops) && ops[i].Follows {
		i++
	}
	return i
}

func (s *Store) applyPart(ctx context.Context, ops []Op) ([]error, error) {
	if len(ops) == 0 {
		return nil, nil
	}
	results, err := s.d.Apply(ctx, ops)
	if err == nil && len(results) != len(ops) {
		err = fmt.Errorf("driver answered %d of %d writes", len(results), len(ops))
	}
	if err != nil {
		results = slices.Repeat([]error{ErrUnknown}, len(ops))
	}
	if !slices.ContainsFunc(results, isUnknown) {
		return results, nil
	}
	return results, s.settle(ctx, ops, results, err)
}

// Sweep deletes up to limit ended rows that expired at or before now, with their payloads and wake-up rows,
// and returns how many.
func (s *Store) Sweep(ctx context.Context, now task.Instant, limit int) (n int, err error) {
	ops := limit
	if s.EndedExpire() {
		ops = 0 // the driver sends no request, so that the call does not show that it answers
	}
	defer s.observe(ctx, "sweep", ops, clock.Steady(s.cfg.Clock), &err)
	if err := checkLimit(limit); err != nil {
		return 0, err
	}
	return s.d.Sweep(ctx, now, limit)
}

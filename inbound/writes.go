package inbound

import (
	"context"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/store"
)

var (
	errMoving         = api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the task kept moving; try again")
	errMayBeDelivered = api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "the task is, or is about to be, on the queue of its lambda")
)

// isMoving reports whether a change is to be tried again on the row as it is now.
func isMoving(err error) bool {
	return errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrSkipped)
}

func staleSeq(is, want uint64) error {
	return api.Errorf(kinesinv1.Reason_REASON_STALE_SEQ, "the task is at seq %d and not at %d: it has changed since; read it again", is, want)
}

// change applies ops, and returns an outcome for each.
func (in *Inbound) change(ctx context.Context, ops []store.Op) []error {
	results := store.Outcomes(ctx, in.Store, ops)
	for k := range ops {
		if results[k] != nil {
			results[k] = fmt.Errorf("change task %s: %w", ops[k].Task.ID, results[k])
		}
	}
	return results
}

package ingest

import (
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// outcome is what became of an arrival.
type outcome uint8

const (
	stored        outcome = iota // it is in the store
	retryLater                   // the store did not take it
	unknownLambda                // its lambda is not known yet, or is being deleted
	rejected                     // it will never be taken as it is
)

// result is the outcome of an arrival, and why.
type result struct {
	outcome outcome
	reason  string // of a rejection
	err     error
}

// Why a message or a task is rejected.
const (
	ReasonUndecodable   = "undecodable"
	ReasonNewerVersion  = "newer_version"
	ReasonNotOurs       = "not_ours"
	ReasonUnknownLambda = "unknown_lambda"
	ReasonInvalid       = "invalid"
	ReasonTooLarge      = "too_large"
	ReasonStale         = "stale"
)

// Reasons lists why something is rejected.
func Reasons() []string {
	return []string{
		ReasonUndecodable, ReasonNewerVersion, ReasonNotOurs, ReasonUnknownLambda, ReasonInvalid, ReasonTooLarge, ReasonStale,
	}
}

// notOursError says that no server or client of this installation sent an arrival.
type notOursError struct{ text string }

func (e *notOursError) Error() string { return e.text }

// staleError says that an arrival may have run already.
type staleError struct{ text string }

func (e *staleError) Error() string { return e.text }

// deletedError says that the lambda of an arrival is being deleted, or is gone, or is not known yet.
type deletedError struct {
	token  task.Token
	lambda *catalog.Entry // nil: gone, or not known yet
}

func (e *deletedError) Error() string {
	if e.lambda != nil {
		return fmt.Sprintf("%v: %s", catalog.ErrDeleting, e.lambda.Name)
	}
	return fmt.Sprintf("%v: the lambda that the task was accepted for was deleted, or was created just now; create one of its name", catalog.ErrUnknown)
}

// Is makes it one of the sentinels of the catalog.
func (e *deletedError) Is(target error) bool {
	if e.lambda != nil {
		return target == catalog.ErrDeleting
	}
	return target == catalog.ErrUnknown
}

// lastingReasons are the refusals that another try does not change.
var lastingReasons = map[kinesinv1.Reason]string{
	kinesinv1.Reason_REASON_TOO_LARGE:    ReasonTooLarge,
	kinesinv1.Reason_REASON_INVALID:      ReasonInvalid,
	kinesinv1.Reason_REASON_KEY_CONFLICT: ReasonInvalid,
	kinesinv1.Reason_REASON_UNSUPPORTED:  ReasonInvalid,
}

// resultOf returns what an error of the intake means for an arrival. On the last try an unknown lambda is no
// longer waited for.
func resultOf(err error, lastTry bool) result {
	var notOurs *notOursError
	var stale *staleError
	switch {
	case err == nil:
		return result{outcome: stored}
	case errors.Is(err, catalog.ErrDeleting):
		return result{outcome: unknownLambda, err: err}
	case errors.Is(err, catalog.ErrUnknown):
		if !lastTry {
			return result{outcome: unknownLambda, err: err}
		}
		return result{rejected, ReasonUnknownLambda, fmt.Errorf("%w; then retry", err)}
	case errors.As(err, &notOurs):
		return result{rejected, ReasonNotOurs, err}
	case errors.As(err, &stale):
		return result{rejected, ReasonStale, err}
	case errors.Is(err, store.ErrMalformed):
		return result{rejected, ReasonInvalid, err}
	}
	if reason, lasting := lastingReasons[refusal.Problem(err).Reason]; lasting {
		return result{rejected, reason, err}
	}
	return result{outcome: retryLater, err: err}
}

// problem returns a result as the answer to a call.
func (r *result) problem() *kinesinv1.Problem {
	switch r.outcome {
	case stored:
		return nil
	case rejected:
		return api.ProblemOf(refusal.Invalid("%s: %v", r.reason, r.err))
	case retryLater, unknownLambda:
	}
	return refusal.Problem(r.err)
}

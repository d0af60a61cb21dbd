package hsc

import (
	"context"
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/task"
)

// retryAfter is how long a worker is told to wait before it repeats a call that the store did not take.
const retryAfter = 100 * time.Millisecond

var (
	errStopping   = &api.Error{Reason: kinesinv1.Reason_REASON_UNAVAILABLE, Text: "this server is stopping; connect again", RetryAfter: retryAfter}
	errSuperseded = &api.Error{Reason: kinesinv1.Reason_REASON_INVALID, Text: "this worker has opened another stream or claimed again, which ends this call"}
	errNoHello    = &api.Error{Reason: kinesinv1.Reason_REASON_INVALID, Text: "the first message of a stream must be hello"}
	errNoWorker   = &api.Error{Reason: kinesinv1.Reason_REASON_INVALID, Text: "worker is empty: want the id that Register returned"}

	// errStreamDone is the cause of the end of a stream that its worker closed.
	errStreamDone = errors.New("the worker closed the stream")
	// errBusy is the error of reports whose rows others kept changing.
	errBusy = errors.New("rows kept changing")
)

func invalid(format string, args ...any) error {
	return api.Errorf(kinesinv1.Reason_REASON_INVALID, format, args...)
}

func leaseLost(worker string) error {
	return api.Errorf(kinesinv1.Reason_REASON_LEASE_LOST,
		"the lease of worker %s has ended: stop what runs and register again", worker)
}

// unavailable returns the error for a worker when the store or the queue failed. The cause goes to the hooks,
// unless the call was cancelled.
func (s *Service) unavailable(ctx context.Context, what string, err error) error {
	if ctx.Err() == nil {
		s.Hooks.Failed(what, err)
	}
	return &api.Error{
		Reason: kinesinv1.Reason_REASON_UNAVAILABLE, Text: what + ": the store did not answer; try again", RetryAfter: retryAfter,
	}
}

// leaseProblem translates an error of lease.Book for a worker.
func (s *Service) leaseProblem(ctx context.Context, worker string, err error) error {
	switch {
	case errors.Is(err, lease.ErrLost):
		return leaseLost(worker)
	case errors.Is(err, task.ErrInvalid):
		return err
	}
	return s.unavailable(ctx, "change a worker lease", err)
}

func fencedProblem(text string) *kinesinv1.Problem {
	return &kinesinv1.Problem{Reason: kinesinv1.Reason_REASON_FENCED, Text: text}
}

func unavailableProblem() *kinesinv1.Problem {
	return &kinesinv1.Problem{
		Reason: kinesinv1.Reason_REASON_UNAVAILABLE, Text: "the result may not be stored; send it again",
		RetryAfter: retryAfter.Microseconds(),
	}
}

func invalidProblem(text string) *kinesinv1.Problem {
	return &kinesinv1.Problem{Reason: kinesinv1.Reason_REASON_INVALID, Text: text}
}

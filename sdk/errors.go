package sdk

import (
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/controller"
)

// The refusals of a server, one for each decision a caller makes. The text of an
// error says more: what was wrong and what is allowed.
var (
	ErrInvalid       = api.ErrInvalid       // a value is outside what is allowed
	ErrUnknownLambda = api.ErrUnknownLambda // no lambda has that name
	ErrNotFound      = api.ErrNotFound      // no task has that id
	ErrKeyConflict   = api.ErrKeyConflict   // the key is taken by a task with another payload, priority or collection
	ErrTooLate       = api.ErrTooLate       // the task has ended
	ErrTooLarge      = api.ErrTooLarge      // the payload is above the limit
	ErrFull          = api.ErrFull          // the store takes no new tasks for want of space
	ErrThrottled     = api.ErrThrottled     // a rate limit was met; see RetryAfter
	ErrUnavailable   = api.ErrUnavailable   // no server answered, also not after retries; the outcome may be unknown
	ErrExists        = api.ErrExists        // the lambda exists with other settings
	ErrInUse         = api.ErrInUse         // the lambda has live tasks
	ErrRegistered    = api.ErrRegistered    // the lambda is registered (by Terraform), and goes with its registration only
	ErrUnsupported   = api.ErrUnsupported   // this server cannot do it
	// ErrUnauthenticated says that the server takes no call without a token, or not with this one: see
	// WithTokenFile.
	ErrUnauthenticated = api.ErrUnauthenticated
	ErrInternal        = api.ErrInternal // the server failed; the cause is in its log
)

// Why a worker's Run ended, or why the context of a handler did (context.Cause).
var (
	ErrLeaseLost = controller.ErrLeaseLost // the worker lost touch with the server; its tasks run elsewhere
	ErrAbandoned = controller.ErrAbandoned // handlers did not return in time; the process should end
	ErrCancelled = controller.ErrCancelled // somebody cancelled the task
	ErrTimeout   = controller.ErrTimeout   // the attempt ran longer than its timeout
	ErrDraining  = controller.ErrDraining  // the worker is stopping and the grace is over
	ErrFenced    = controller.ErrFenced    // another attempt owns the task now
)

// RetryAfter is how long the server asks to wait before the next try; zero when it does not say.
func RetryAfter(err error) time.Duration {
	if e, found := errors.AsType[*api.Error](err); found {
		return e.RetryAfter
	}
	return 0
}

package sdk

import (
	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/controller"
)

// The refusals of a server, one for each decision a caller makes. The text of an
// error says more: what was wrong and what is allowed.
var (
	ErrInvalid          = api.ErrInvalid          // a value is outside what is allowed
	ErrUnknownLambda    = api.ErrUnknownLambda    // no lambda has that name
	ErrNotFound         = api.ErrNotFound         // no task has that id
	ErrKeyConflict      = api.ErrKeyConflict      // the key is held by another task, such as one with another payload
	ErrTooLate          = api.ErrTooLate          // the task has ended, or a worker has it
	ErrStaleSeq         = api.ErrStaleSeq         // the task has changed since its seq was read: see IfSeq
	ErrTooLarge         = api.ErrTooLarge         // the payload is above the limit
	ErrFull             = api.ErrFull             // the store has no space for new tasks
	ErrThrottled        = api.ErrThrottled        // an admission quota is used up, for longer than the call may take
	ErrUnavailable      = api.ErrUnavailable      // no server answered, even after retries; the outcome may be unknown
	ErrExists           = api.ErrExists           // the lambda exists with other settings
	ErrInUse            = api.ErrInUse            // the lambda has live tasks
	ErrRegistered       = api.ErrRegistered       // the lambda is registered (by Terraform); remove its registration to delete it
	ErrUnsupported      = api.ErrUnsupported      // this server cannot do it
	ErrUnauthenticated  = api.ErrUnauthenticated  // the server wants a token, or does not accept this one: see WithTokenFile
	ErrPermissionDenied = api.ErrPermissionDenied // no grant of the token's identity allows it; the text names the missing verb
	ErrInternal         = api.ErrInternal         // the server failed; the cause is in its log
)

// Why a worker's Run ended, or why the context of a handler did (context.Cause).
var (
	ErrLeaseLost = controller.ErrLeaseLost // the worker lost its lease; its tasks run elsewhere
	ErrAbandoned = controller.ErrAbandoned // handlers did not return in time; the process should end
	ErrCancelled = controller.ErrCancelled // somebody cancelled the task
	ErrTimeout   = controller.ErrTimeout   // the attempt ran longer than its timeout
	ErrDraining  = controller.ErrDraining  // the worker is stopping and the grace is over
	ErrFenced    = controller.ErrFenced    // another attempt owns the task now
)

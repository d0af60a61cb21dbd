package target

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
)

// putOffMax is how often in its life a task is put off because its target asks for it.
const putOffMax = 100

// Conclude returns what the handler of an attempt returns for an outcome, whose result it sets.
func Conclude(t *sdk.Task[[]byte], o controller.Outcome) error {
	if o.Kind != task.OutcomeSuccess {
		return &sdkconfig.OutcomeError{Outcome: o}
	}
	if o.Result != nil {
		t.SetResult(o.Result)
	}
	return nil
}

// TimesCalls is the option of a client whose workers call targets. With it the timeout of an attempt bounds its call alone:
// the runner starts it by Within, after the wait for the host.
func TimesCalls() sdk.ClientOption {
	return sdkconfig.WithControllers(func(_ context.Context, c *controller.Config) { c.OwnTimeouts = true })
}

// Within starts the timeout of a task's attempt. It returns the context of the call, which ends when the time is over; done
// ends the context, and if the time was over the outcome says so.
func Within(ctx context.Context, t *sdk.Task[[]byte]) (call context.Context, done func(*controller.Outcome)) {
	if t.Timeout <= 0 {
		return ctx, func(*controller.Outcome) {}
	}
	call, end := context.WithTimeoutCause(ctx, t.Timeout, sdk.ErrTimeout)
	return call, func(o *controller.Outcome) {
		if o.Kind == task.OutcomeRetriable && errors.Is(context.Cause(call), sdk.ErrTimeout) {
			o.Error = fmt.Sprintf("timed out after %v: %s", t.Timeout, o.Error)
		}
		end()
	}
}

// Class returns the class by which calls are counted, for the HTTP status of an answer: "2xx" to "5xx", or "none" for 0.
func Class(status int) string {
	if status == 0 {
		return "none"
	}
	return strconv.Itoa(status/100) + "xx"
}

// MayPutOff reports whether a task whose target asks to be called later is put off once more. If not, that counts as
// a failure: a target cannot put tasks off forever.
func MayPutOff(t *sdk.Task[[]byte]) bool { return PutOffs(t) < putOffMax }

// PutOffs returns how often a task was put off.
func PutOffs(t *sdk.Task[[]byte]) int { return max(t.Attempt-1-t.Failures-t.WorkerLost, 0) }

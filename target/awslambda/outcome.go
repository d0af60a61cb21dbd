package awslambda

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/smithy-go"

	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/target"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// FatalErrorType ends the type of a function's error that no retry can mend.
	FatalErrorType = "KinesinFatal"
)

// failed returns how an attempt ends whose function failed. The answer describes the failure.
func failed(answer []byte) controller.Outcome {
	var of struct {
		Type    string `json:"errorType"`
		Message string `json:"errorMessage"`
	}
	if err := json.Unmarshal(answer, &of); err != nil { // it is too long, or none of AWS Lambda's libraries wrote it
		of.Message = string(answer)
	}
	o := controller.Outcome{Kind: task.OutcomeRetriable, Error: "the function failed: " + strings.TrimPrefix(of.Type+": "+of.Message, ": ")}
	if strings.HasSuffix(of.Type, FatalErrorType) {
		o.Kind = task.OutcomeFatal
	}
	return o
}

// refused returns how an attempt ends whose invocation AWS Lambda refused or did not answer.
func (r *Runner) refused(t *sdk.Task[[]byte], err error) controller.Outcome {
	o := controller.Outcome{Kind: task.OutcomeRetriable}
	refusal, answered := errors.AsType[smithy.APIError](err)
	if !answered {
		o.Error = "no answer from AWS Lambda: " + lastCause(err)
		return o
	}
	o.Error = fmt.Sprintf("AWS Lambda refused the invocation: %s: %s", refusal.ErrorCode(), r.reason(refusal))
	if isFinal(err, refusal.ErrorCode()) {
		o.Kind = task.OutcomeFatal
	}
	if d, said := retryAfter(err); said && target.MayPutOff(t) {
		o.Kind, o.Delay = task.OutcomeSnoozed, d
	}
	return o
}

// reason returns why an invocation was refused. Messages about permissions name roles, which whoever may read
// the task need not know.
func (r *Runner) reason(refusal smithy.APIError) string {
	switch refusal.ErrorCode() {
	case codeDenied:
		return "allow lambda:InvokeFunction on " + r.arn + " to the servers"
	case "UnrecognizedClientException", "InvalidSignatureException", "ExpiredTokenException":
		return "the servers' credentials or clock are wrong"
	}
	return refusal.ErrorMessage()
}

const codeDenied = "AccessDeniedException"

// isFinal reports whether AWS Lambda will refuse the same invocation again, by the status of its answer: 409
// and 429 are those of a function that is changing or throttled.
func isFinal(err error, code string) bool {
	switch status := statusOf(nil, err); status {
	case 0: // no answer
		return false
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return false
	case http.StatusForbidden: // other ones are about credentials, which somebody mends for all tasks
		return code == codeDenied
	default:
		return status < http.StatusInternalServerError
	}
}

// retryAfter returns how long AWS Lambda wants to be left alone.
func retryAfter(err error) (time.Duration, bool) {
	throttle, is := errors.AsType[*types.TooManyRequestsException](err)
	if !is || throttle.RetryAfterSeconds == nil {
		return 0, false
	}
	seconds, err := strconv.ParseUint(*throttle.RetryAfterSeconds, 10, 31)
	return time.Duration(seconds) * time.Second, err == nil && seconds > 0
}

// lastCause returns the text of the innermost error, which has no addresses of this network.
func lastCause(err error) string {
	for cause := err; cause != nil; cause = errors.Unwrap(cause) {
		err = cause
	}
	if name, is := errors.AsType[*net.DNSError](err); is {
		return name.Err
	}
	return err.Error()
}

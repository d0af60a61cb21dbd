package dynamo

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/kinesin-io/kinesin/store"
)

// result says what DynamoDB did with one write.
type result uint8

const (
	applied    result = iota
	conflicted        // the condition does not hold
	throttled         // not written, for lack of capacity
	refused           // not written, and sending it again would not help
	unsent            // not written, for lack of a connection
	unknown           // written or not
)

// classify returns what a failed request means for what it was to write.
func classify(err error) result {
	if api, answered := errors.AsType[smithy.APIError](err); answered {
		status := 0
		if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
			status = response.HTTPStatusCode()
		}
		if api.ErrorFault() == smithy.FaultServer && status == 0 {
			status = http.StatusInternalServerError
		}
		return classifyCode(api.ErrorCode(), status)
	}
	switch {
	case isUnconnected(err):
		return unsent
	case failedBeforeSending(err):
		return refused
	}
	return unknown
}

// classifyCode classifies an error by DynamoDB's code. status is 0 for one statement of a batch.
func classifyCode(code string, status int) result {
	switch strings.TrimSuffix(code, "Exception") {
	case "ProvisionedThroughputExceeded", "Throttling", "ThrottlingError", "RequestLimitExceeded", "Throttled", "TooManyRequests", "TransactionConflict",
		"ReplicatedWriteConflict", "TransactionInProgress":
		return throttled
	case "InternalServerError", "InternalFailure", "ServiceUnavailable", "RequestTimeout":
		return unknown
	}
	if status >= http.StatusInternalServerError || status == http.StatusRequestTimeout {
		return unknown
	}
	return refused
}

// isInvalid reports whether DynamoDB refused a request because of its content.
func isInvalid(err error) bool {
	api, is := errors.AsType[smithy.APIError](err)
	return is && strings.TrimSuffix(api.ErrorCode(), "Exception") == "Validation"
}

// isUnconnected reports whether a request got no connection. Connecting is its first step, so DynamoDB has
// seen nothing of it.
func isUnconnected(err error) bool {
	var dial *net.OpError
	var name *net.DNSError
	return errors.As(err, &dial) && dial.Op == "dial" || errors.As(err, &name)
}

// failedBeforeSending reports whether a request failed in the client before it sent anything.
func failedBeforeSending(err error) bool {
	if _, unmade := errors.AsType[*smithy.SerializationError](err); unmade {
		return true
	}
	var op *smithy.OperationError
	var send *smithyhttp.RequestSendError
	if !errors.As(err, &op) || errors.As(err, &send) {
		return false
	}
	// Errors of these steps have no type of their own.
	text := op.Unwrap().Error()
	return strings.HasPrefix(text, "get identity:") || strings.HasPrefix(text, "resolve auth scheme:") || strings.HasPrefix(text, "resolve endpoint:")
}

// withSentinel adds the sentinel of package store that a refusal stands for.
func withSentinel(err error) error {
	if api, is := errors.AsType[smithy.APIError](err); is && strings.Contains(api.ErrorMessage(), "Item size") {
		return fmt.Errorf("%w: %w", store.ErrTooLarge, err)
	}
	return err
}

package dynamo

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/kinesin-io/kinesin/store"
)

var never = aws.NopRetryer{}

// classify says what a failed request means for what it was to write.
func classify(err error) verdict {
	if api, answered := errors.AsType[smithy.APIError](err); answered {
		status := 0
		if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok {
			status = response.HTTPStatusCode()
		}
		if api.ErrorFault() == smithy.FaultServer && status == 0 {
			status = http.StatusInternalServerError
		}
		return verdictOf(api.ErrorCode(), status)
	}
	if neverSent(err) {
		return refused
	}
	return unknown
}

// verdictOf is for an error that DynamoDB answered with; status is 0 when it stands for one statement of a batch.
func verdictOf(code string, status int) verdict {
	switch strings.TrimSuffix(code, "Exception") {
	case "ProvisionedThroughputExceeded", "Throttling", "ThrottlingError", "RequestLimitExceeded", "Throttled", "TooManyRequests", "TransactionConflict",
		"ReplicatedWriteConflict", "TransactionInProgress":
		return putOff
	case "InternalServerError", "InternalFailure", "ServiceUnavailable", "RequestTimeout":
		return unknown
	}
	if status >= http.StatusInternalServerError || status == http.StatusRequestTimeout {
		return unknown
	}
	return refused
}

// isInvalid reports whether DynamoDB refused a request for what is in it.
func isInvalid(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && strings.TrimSuffix(api.ErrorCode(), "Exception") == "Validation"
}

// neverSent reports whether a request failed before DynamoDB can have seen any of it.
func neverSent(err error) bool {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return true
	}
	var name *net.DNSError
	var form *smithy.SerializationError
	if errors.As(err, &name) || errors.As(err, &form) {
		return true
	}
	var op *smithy.OperationError
	var send *smithyhttp.RequestSendError
	if !errors.As(err, &op) || errors.As(err, &send) {
		return false
	}
	// Steps of the client before it sends, which have no type of their own.
	text := op.Unwrap().Error()
	return strings.HasPrefix(text, "get identity:") || strings.HasPrefix(text, "resolve auth scheme:") || strings.HasPrefix(text, "resolve endpoint:")
}

// explain adds the sentinel of package store that a refusal stands for.
func explain(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) && strings.Contains(api.ErrorMessage(), "Item size") {
		return fmt.Errorf("%w: %w", store.ErrTooLarge, err)
	}
	return err
}

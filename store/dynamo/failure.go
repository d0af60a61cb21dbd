package dynamo

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

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
	switch {
	case isUnconnected(err):
		return unsent
	case neverSent(err):
		return refused
	}
	return unknown
}

// verdictOf is for an error that DynamoDB answered with; status is 0 when it stands for one statement of a
// batch.
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

// isUnconnected reports whether a request had no connection to go by, which may pass. The connection is the
// first thing it gets, so DynamoDB has seen nothing of it.
func isUnconnected(err error) bool {
	var dial *net.OpError
	var name *net.DNSError
	return errors.As(err, &dial) && dial.Op == "dial" || errors.As(err, &name)
}

// neverSent reports whether a request failed before DynamoDB can have seen any of it.
func neverSent(err error) bool {
	if _, unmade := errors.AsType[*smithy.SerializationError](err); unmade {
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

// unreachableLoggedEvery is how often the log says that DynamoDB cannot be reached.
const unreachableLoggedEvery = 10 * time.Second

// unreachable tells a caller to try again. The log has the cause, though not for every caller.
func (d *Driver) unreachable(table string, err error) error {
	if d.unreached.note(d.cfg.Clock, unreachableLoggedEvery) > 0 {
		d.cfg.Logger.Warn("DynamoDB does not answer", slog.String("table", table), slog.Any("error", err))
	}
	return fmt.Errorf("%w: table %s: %w", store.ErrUnreachable, table, err)
}

// explain adds the sentinel of package store that a refusal stands for.
func explain(err error) error {
	var api smithy.APIError
	if errors.As(err, &api) && strings.Contains(api.ErrorMessage(), "Item size") {
		return fmt.Errorf("%w: %w", store.ErrTooLarge, err)
	}
	return err
}

package awsfake

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/kinesin-io/kinesin/internal/awserr"
)

// APIError returns an error that a service answers with; server is set when it is the service's fault.
func APIError(code, message string, server bool) error {
	fault := smithy.FaultClient
	if server {
		fault = smithy.FaultServer
	}
	return &smithy.GenericAPIError{Code: code, Message: message, Fault: fault}
}

// operationError wraps an error as the SDK does.
func operationError(service, call string, err error) error {
	if api := smithy.APIError(nil); errors.As(err, &api) {
		status := http.StatusBadRequest
		if api.ErrorFault() == smithy.FaultServer {
			status = http.StatusInternalServerError
		}
		err = &awshttp.ResponseError{
			RequestID: "00000000-0000-0000-0000-000000000000",
			ResponseError: &smithyhttp.ResponseError{
				Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}}, Err: err,
			},
		}
	}
	return &smithy.OperationError{ServiceID: service, OperationName: call, Err: err}
}

// canceled returns the SDK's error for the end of the caller's context.
func canceled(err error) error { return &aws.RequestCanceledError{Err: err} }

// noAnswer returns the error of an HTTP client that timed out.
func noAnswer(call string) error {
	return &smithyhttp.RequestSendError{Err: &url.Error{Op: "Post", URL: "https://fake/" + call, Err: timeoutError{}}}
}

type timeoutError struct{}

func (timeoutError) Error() string   { return "timeout awaiting response headers" }
func (timeoutError) Timeout() bool   { return true }
func (timeoutError) Temporary() bool { return true }

// isTransient reports whether the SDK's standard retryer would try again.
func isTransient(err error) bool {
	if send := (*smithyhttp.RequestSendError)(nil); errors.As(err, &send) {
		return true
	}
	api := smithy.APIError(nil)
	if !errors.As(err, &api) {
		return false
	}
	return awserr.IsThrottled(err) || api.ErrorFault() == smithy.FaultServer
}

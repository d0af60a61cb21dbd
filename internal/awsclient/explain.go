package awsclient

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/kinesin-io/kinesin/internal/awserr"
)

// Kinds of an Error. All but ErrUnreachable and ErrThrottled last until somebody changes something.
var (
	ErrSettings    = errors.New("AWS settings are wrong")
	ErrRegion      = errors.New("no usable AWS region")
	ErrCredentials = errors.New("no usable AWS credentials")
	ErrClock       = errors.New("clock is too far off")
	ErrDenied      = errors.New("AWS denies an action")
	ErrMissing     = errors.New("a table or queue is missing")
	ErrUnreachable = errors.New("AWS cannot be reached")
	ErrThrottled   = errors.New("AWS throttles requests")
)

// Error describes a failed request in one sentence.
type Error struct {
	Kind error // one of the sentinels above
	Text string
	Err  error // the cause; nil for none
}

// Error returns the sentence.
func (e *Error) Error() string { return e.Text }

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// Lasting reports whether a retry cannot help until somebody changes something.
func Lasting(err error) bool {
	e, found := errors.AsType[*Error](err)
	return found && !errors.Is(e.Kind, ErrUnreachable) && !errors.Is(e.Kind, ErrThrottled)
}

// codes are the error codes of DynamoDB, SQS and the SDK for each kind, without the ending "Exception".
var codes = map[error][]string{
	ErrCredentials: {
		"UnrecognizedClient", "InvalidClientTokenId", "InvalidSignature", "SignatureDoesNotMatch", "IncompleteSignature", "MissingAuthenticationToken",
		"ExpiredToken", "InvalidAccessKeyId", "InvalidSecurity", "NotAuthorized", "AuthFailure",
	},
	ErrClock:  {"RequestExpired", "RequestTimeTooSkewed", "InvalidTimestamp"},
	ErrDenied: {"AccessDenied", "UnauthorizedOperation", "OptInRequired", "AuthorizationError", "SubscriptionRequired", "KMS.AccessDenied", "KmsAccessDenied"},
	ErrMissing: {
		"ResourceNotFound", "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "TableNotFound",
	},
	ErrSettings: {"InvalidAction", "UnknownOperation"}, // another service answers
}

// Explain turns the error of a request into an Error. It returns nil and errors that it does not know as they
// are.
func Explain(err error) error {
	if err == nil {
		return nil
	}
	if _, done := errors.AsType[*Error](err); done {
		return err
	}
	action := actionOf(err)
	var api smithy.APIError
	if errors.As(err, &api) && api.ErrorCode() != "UnknownError" {
		return explainAnswer(err, action, api)
	}
	text := err.Error()
	switch {
	case strings.Contains(text, "get identity: get credentials"), strings.Contains(text, "failed to refresh cached credentials"):
		return &Error{Kind: ErrCredentials, Err: err, Text: "the AWS credentials cannot be renewed: " + lastCause(err)}
	case strings.Contains(text, "Missing Region"), strings.Contains(text, "resolve endpoint"), strings.Contains(text, "resolve auth scheme"):
		return &Error{Kind: ErrRegion, Err: err, Text: "there is no AWS endpoint for " + action + ": is the region in AWS_REGION right? (" + lastCause(err) + ")"}
	}
	return explainSilence(err, action)
}

// explainAnswer explains the error of a request that was answered.
func explainAnswer(err error, action string, api smithy.APIError) error {
	code, message := strings.TrimSuffix(api.ErrorCode(), "Exception"), oneLine(api.ErrorMessage())
	kind := kindOf(code, message)
	e := &Error{Kind: kind, Err: err}
	switch {
	case errors.Is(kind, ErrClock):
		if at, known := serverTime(err); known {
			message = "AWS has " + at + "; " + message
		}
		e.Text = "AWS refuses the time in the signature of " + action + ": this machine's clock is off; synchronise it (" + message + ")"
	case errors.Is(kind, ErrCredentials):
		e.Text = "AWS refuses the credentials with which " + action + " was signed: are they of this account, region and time? (" + api.ErrorCode() + ": " + message + ")"
	case errors.Is(kind, ErrRegion):
		e.Text = "AWS wants " + action + " signed for another region: is the one in AWS_REGION right? (" + message + ")"
	case errors.Is(kind, ErrDenied):
		e.Text = "AWS denies " + action + ": allow that action to these credentials (" + message + ")"
	case errors.Is(kind, ErrMissing):
		e.Text = "the table or queue of " + action + " does not exist: is the region in AWS_REGION right, and was `kinesin aws setup` run? (" + message + ")"
	case errors.Is(kind, ErrThrottled):
		e.Text = "AWS throttles " + action + ": try again later, or raise the limit (" + api.ErrorCode() + ": " + message + ")"
	case errors.Is(kind, ErrSettings):
		e.Text = "the endpoint does not know " + action + ": is the one in AWS_ENDPOINT_URL_… that of " + serviceOf(err) +
			"? (" + api.ErrorCode() + ": " + message + ")"
	default:
		if response := (*smithyhttp.ResponseError)(nil); errors.As(err, &response) && response.HTTPStatusCode() >= http.StatusInternalServerError {
			e.Kind = ErrUnreachable
			e.Text = fmt.Sprintf("AWS failed to carry out %s: status %d, %s: %s", action, response.HTTPStatusCode(), api.ErrorCode(), message)
			return e
		}
		return err
	}
	return e
}

func kindOf(code, message string) error {
	lower := strings.ToLower(message)
	switch {
	case strings.Contains(lower, "signature expired"), strings.Contains(lower, "signature not yet current"):
		return ErrClock
	case strings.Contains(lower, "scoped to a valid region"), strings.Contains(lower, "scoped to correct region"):
		return ErrRegion
	case awserr.IsThrottleCode(code):
		return ErrThrottled
	}
	for kind, all := range codes {
		if slices.Contains(all, code) {
			return kind
		}
	}
	return nil
}

// explainSilence explains the error of a request that was not answered, or not by AWS.
func explainSilence(err error, action string) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	var name *net.DNSError
	var send *url.Error
	where := ""
	if errors.As(err, &send) {
		if u, parseErr := url.Parse(send.URL); parseErr == nil {
			where = " at " + u.Scheme + "://" + u.Host
		}
	}
	e := &Error{Kind: ErrUnreachable, Err: err}
	var response *smithyhttp.ResponseError
	switch {
	case errors.As(err, &name) && name.IsNotFound:
		e.Text = "there is no host " + name.Name + " for " + action + ": is the region in AWS_REGION right, or the endpoint in AWS_ENDPOINT_URL_…?"
	case errors.As(err, &response) && response.HTTPStatusCode() != 0:
		e.Text = fmt.Sprintf("%s%s was answered with status %d, but not by AWS: is the endpoint in AWS_ENDPOINT_URL_… right?", action, where, response.HTTPStatusCode())
	case isTimeout(err):
		e.Text = "nothing answers " + action + where + " in time: is the endpoint right, and the network open?"
	case errors.As(err, &send), isNet(err):
		e.Text = "nothing answers " + action + where + ": is the endpoint right, and does it run? (" + lastCause(err) + ")"
	default:
		return err
	}
	return e
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

func isNet(err error) bool {
	var op *net.OpError
	return errors.As(err, &op)
}

// actionOf returns the name of the requested action in permissions: "dynamodb:DescribeTable".
func actionOf(err error) string {
	var op *smithy.OperationError
	if !errors.As(err, &op) {
		return "a request"
	}
	return strings.ToLower(op.Service()) + ":" + op.Operation()
}

// serviceOf returns the name of the requested service.
func serviceOf(err error) string {
	var op *smithy.OperationError
	if !errors.As(err, &op) {
		return "that service"
	}
	return op.Service()
}

func serverTime(err error) (string, bool) {
	var response *smithyhttp.ResponseError
	if !errors.As(err, &response) || response.Response == nil {
		return "", false
	}
	date := response.Response.Header.Get("Date")
	return date, date != ""
}

// lastCause returns the text of the innermost error, without the steps of the SDK.
func lastCause(err error) string {
	for {
		next := errors.Unwrap(err)
		if joined, several := err.(interface{ Unwrap() []error }); several {
			if all := joined.Unwrap(); len(all) > 0 {
				next = all[len(all)-1] // those before it are sentinels
			}
		}
		if next == nil {
			return oneLine(err.Error())
		}
		err = next
	}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

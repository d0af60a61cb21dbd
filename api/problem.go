package api

import (
	"context"
	"errors"
	"net"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// InternalText is the text that clients get for an internal error.
const InternalText = "internal error; the server's log has the cause"

// domain maps the refusals of package task, which does not know the wire, to reasons.
var domain = []struct {
	err    error
	reason Reason
}{
	{task.ErrInvalid, kinesinv1.Reason_REASON_INVALID},
	{task.ErrBadID, kinesinv1.Reason_REASON_NOT_FOUND},
	{task.ErrEnded, kinesinv1.Reason_REASON_TOO_LATE},
	{task.ErrFenced, kinesinv1.Reason_REASON_FENCED},
	{context.Canceled, kinesinv1.Reason_REASON_UNAVAILABLE},
	{context.DeadlineExceeded, kinesinv1.Reason_REASON_UNAVAILABLE},
}

// ProblemOf returns the form of an error on the wire: the refusal for an Error, for a sentinel of this
// package and for a refusal of package task. Any other error becomes an internal error with InternalText. nil
// stays nil. A text may quote what others sent, so it is made Visible.
func ProblemOf(err error) *kinesinv1.Problem {
	if err == nil {
		return nil
	}
	if e, found := errors.AsType[*Error](err); found && e.Reason != kinesinv1.Reason_REASON_INTERNAL {
		return &kinesinv1.Problem{Reason: e.Reason, Text: Visible(err.Error()), RetryAfter: e.RetryAfter.Microseconds()}
	}
	if reason := reasonOf(err); reason != kinesinv1.Reason_REASON_INTERNAL {
		return &kinesinv1.Problem{Reason: reason, Text: Visible(err.Error())}
	}
	return &kinesinv1.Problem{Reason: kinesinv1.Reason_REASON_INTERNAL, Text: InternalText}
}

func reasonOf(err error) Reason {
	for number := range int32(len(kinesinv1.Reason_name)) { // in order, so that an error with two reasons always gets the same one
		if f, known := forms[Reason(number)]; known && errors.Is(err, f.sentinel) {
			return Reason(number)
		}
	}
	for _, d := range domain {
		if errors.Is(err, d.err) {
			return d.reason
		}
	}
	return kinesinv1.Reason_REASON_INTERNAL
}

// ErrorOf returns the error for a problem in a response; nil for nil.
func ErrorOf(p *kinesinv1.Problem) error {
	if p == nil {
		return nil
	}
	return &Error{Reason: p.Reason, Text: p.Text, RetryAfter: task.Micros(p.RetryAfter)}
}

// ToWire returns the form of an error in which a call returns it: a code, with the problem as its detail. An
// error that has a code already is not changed.
func ToWire(err error) error {
	if err == nil {
		return nil
	}
	if coded, found := errors.AsType[*connect.Error](err); found {
		return coded
	}
	p := ProblemOf(err)
	coded := connect.NewError(formOf(p.Reason).code, errors.New(p.Text))
	if detail, detailErr := connect.NewErrorDetail(p); detailErr == nil {
		coded.AddDetail(detail)
	}
	return coded
}

// FromWire returns the error of a call as its caller should see it: an *Error with the server's reason, or
// one that says that no server of Kinesin answered. It does not change the end of the caller's context, nor
// an *Error.
func FromWire(err error) error {
	if isUnconnected(err) { // first: a dial timeout is not the end of the caller's context
		return &Error{Reason: kinesinv1.Reason_REASON_UNAVAILABLE, Text: err.Error(), Unreached: true}
	}
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if own, found := errors.AsType[*Error](err); found {
		return own
	}
	coded, found := errors.AsType[*connect.Error](err)
	if !found {
		return Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "%v", err)
	}
	for _, detail := range coded.Details() {
		value, detailErr := detail.Value()
		if p, isProblem := value.(*kinesinv1.Problem); detailErr == nil && isProblem {
			return ErrorOf(p)
		}
	}
	text := coded.Error()
	if isCutOff(coded) {
		return &Error{Reason: kinesinv1.Reason_REASON_UNAVAILABLE, Text: text}
	}
	if coded.Code() == connect.CodeUnimplemented {
		text = "the server does not know this call: is it a server of Kinesin, no older than this client, with the role for it (serve --roles)? (" + text + ")"
	}
	return &Error{Reason: reasonFor(coded.Code()), Text: text}
}

// isUnconnected reports whether a client could not connect. An error from a server does not wrap a
// *net.OpError.
func isUnconnected(err error) bool {
	var coded *connect.Error
	var dial *net.OpError
	return errors.As(err, &coded) && errors.As(err, &dial) && dial.Op == "dial" && !errors.Is(err, context.Canceled)
}

// isCutOff reports whether the connection broke while the response was read, so that the outcome is unknown.
// The client makes such an error itself, with the code for an unknown error or for a stream that was reset.
func isCutOff(err *connect.Error) bool {
	switch err.Code() {
	case connect.CodeUnknown:
		return !connect.IsWireError(err) && errors.Unwrap(err.Unwrap()) != nil // without a cause it is the answer of another kind of server
	case connect.CodeInternal:
		return !connect.IsWireError(err)
	default:
		return false
	}
}

// reasonFor returns the reason for a code that came without a problem: from a proxy, from the transport, or
// from another kind of server.
func reasonFor(code connect.Code) Reason {
	switch code {
	case connect.CodeUnavailable, connect.CodeCanceled, connect.CodeDeadlineExceeded, connect.CodeAborted:
		return kinesinv1.Reason_REASON_UNAVAILABLE
	case connect.CodeResourceExhausted: // a message above MessageBytesMax
		return kinesinv1.Reason_REASON_TOO_LARGE
	case connect.CodeInvalidArgument, connect.CodeOutOfRange:
		return kinesinv1.Reason_REASON_INVALID
	case connect.CodeUnimplemented:
		return kinesinv1.Reason_REASON_UNSUPPORTED
	case connect.CodeUnauthenticated:
		return kinesinv1.Reason_REASON_UNAUTHENTICATED
	case connect.CodeUnknown, connect.CodeNotFound, connect.CodeAlreadyExists, connect.CodePermissionDenied,
		connect.CodeFailedPrecondition, connect.CodeInternal, connect.CodeDataLoss:
	}
	return kinesinv1.Reason_REASON_INTERNAL
}

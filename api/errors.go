package api

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// Reason says precisely why something was refused.
type Reason = kinesinv1.Reason

// One sentinel for each decision of a caller. They mean the same on both sides of the wire: errors.Is finds
// in the client what the server wrapped. docs/reference/errors.md is made of their comments.
var (
	// ErrInvalid means that a value is outside what is allowed. The text says what is.
	ErrInvalid = errors.New("invalid")
	// ErrUnknownLambda means that no lambda has that name. Create it first.
	ErrUnknownLambda = errors.New("unknown lambda")
	// ErrNotFound means that there is no such task, or what else the call names: the retention of a task may be over.
	ErrNotFound = errors.New("no such task")
	// ErrKeyConflict means that the key is held by another task, such as one with another payload, priority
	// or collection.
	ErrKeyConflict = errors.New("key is taken by another task")
	// ErrTooLate means that the task has ended, or a worker has it.
	ErrTooLate = errors.New("too late for the task")
	// ErrTooLarge means that a payload or a request is above its limit.
	ErrTooLarge = errors.New("too large")
	// ErrFull means that there is no space for new tasks. Stored tasks still run.
	ErrFull = errors.New("store is full")
	// ErrThrottled means that an admission quota is used up. The server says when to try again.
	ErrThrottled = errors.New("admission quota is used up")
	// ErrUnavailable means that the call may be tried again. Its outcome may be unknown: a key makes a second try harmless.
	ErrUnavailable = errors.New("unavailable")
	// ErrLeaseLost means that the worker's lease has ended. Stop its tasks and register again.
	ErrLeaseLost = errors.New("worker lease lost")
	// ErrFenced means that the attempt no longer owns the task. Stop the attempt.
	ErrFenced = errors.New("attempt does not own the task")
	// ErrExists means that a lambda, cron or token of that name exists with other settings.
	ErrExists = errors.New("lambda exists with other settings")
	// ErrInUse means that the lambda has live tasks, or is being deleted.
	ErrInUse = errors.New("lambda has live tasks")
	// ErrUnsupported means that this server cannot do it, because of its drivers or its roles.
	ErrUnsupported = errors.New("not supported by this server")
	// ErrUnauthenticated means that the call had no token, or none that the server accepts.
	ErrUnauthenticated = errors.New("not authenticated")
	// ErrPermissionDenied means that no grant of the caller allows it. The text names the missing verb.
	ErrPermissionDenied = errors.New("permission denied")
	// ErrRegistered means that the lambda is registered (by Terraform). It is deleted with its registration only.
	ErrRegistered = errors.New("lambda is registered")
	// ErrStaleSeq means that the thing has changed since the caller read it. Read it again.
	ErrStaleSeq = errors.New("task has changed")
	// ErrInternal means that the server failed. Its log has the cause.
	ErrInternal = errors.New("internal error")
)

// form is how a reason is found by errors.Is, and how answers show it.
type form struct {
	sentinel error
	code     connect.Code
	status   int // of plain HTTP
}

var forms = map[Reason]form{
	kinesinv1.Reason_REASON_INVALID:           {ErrInvalid, connect.CodeInvalidArgument, http.StatusBadRequest},
	kinesinv1.Reason_REASON_UNKNOWN_LAMBDA:    {ErrUnknownLambda, connect.CodeNotFound, http.StatusNotFound},
	kinesinv1.Reason_REASON_NOT_FOUND:         {ErrNotFound, connect.CodeNotFound, http.StatusNotFound},
	kinesinv1.Reason_REASON_KEY_CONFLICT:      {ErrKeyConflict, connect.CodeAlreadyExists, http.StatusConflict},
	kinesinv1.Reason_REASON_TOO_LATE:          {ErrTooLate, connect.CodeFailedPrecondition, http.StatusConflict},
	kinesinv1.Reason_REASON_TOO_LARGE:         {ErrTooLarge, connect.CodeInvalidArgument, http.StatusRequestEntityTooLarge},
	kinesinv1.Reason_REASON_FULL:              {ErrFull, connect.CodeResourceExhausted, http.StatusInsufficientStorage},
	kinesinv1.Reason_REASON_THROTTLED:         {ErrThrottled, connect.CodeResourceExhausted, http.StatusTooManyRequests},
	kinesinv1.Reason_REASON_UNAVAILABLE:       {ErrUnavailable, connect.CodeUnavailable, http.StatusServiceUnavailable},
	kinesinv1.Reason_REASON_LEASE_LOST:        {ErrLeaseLost, connect.CodeFailedPrecondition, http.StatusConflict},
	kinesinv1.Reason_REASON_FENCED:            {ErrFenced, connect.CodeAborted, http.StatusConflict},
	kinesinv1.Reason_REASON_EXISTS:            {ErrExists, connect.CodeAlreadyExists, http.StatusConflict},
	kinesinv1.Reason_REASON_IN_USE:            {ErrInUse, connect.CodeFailedPrecondition, http.StatusConflict},
	kinesinv1.Reason_REASON_UNSUPPORTED:       {ErrUnsupported, connect.CodeUnimplemented, http.StatusNotImplemented},
	kinesinv1.Reason_REASON_INTERNAL:          {ErrInternal, connect.CodeInternal, http.StatusInternalServerError},
	kinesinv1.Reason_REASON_UNAUTHENTICATED:   {ErrUnauthenticated, connect.CodeUnauthenticated, http.StatusUnauthorized},
	kinesinv1.Reason_REASON_REGISTERED:        {ErrRegistered, connect.CodeFailedPrecondition, http.StatusConflict},
	kinesinv1.Reason_REASON_PERMISSION_DENIED: {ErrPermissionDenied, connect.CodePermissionDenied, http.StatusForbidden},
	kinesinv1.Reason_REASON_STALE_SEQ:         {ErrStaleSeq, connect.CodeAborted, http.StatusPreconditionFailed},
}

// formOf returns the form of a reason. One that this program does not know, of a newer server, is as an internal error.
func formOf(reason Reason) form {
	if f, known := forms[reason]; known {
		return f
	}
	return forms[kinesinv1.Reason_REASON_INTERNAL]
}

// Error is a refusal: a reason for programs and a text for people.
// errors.Is finds the sentinel of its reason in it.
type Error struct {
	Reason     Reason
	Text       string
	RetryAfter time.Duration // 0: not given
	// Unreached is set by a client that could not connect: no server got the call.
	Unreached bool
}

// Errorf returns a refusal with a reason and a text.
func Errorf(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Text: fmt.Sprintf(format, args...)}
}

// After says when to try again, and returns the refusal.
func (e *Error) After(d time.Duration) *Error {
	e.RetryAfter = d
	return e
}

// Error returns the text, or the text of the sentinel if there is none.
func (e *Error) Error() string {
	if e.Text != "" {
		return e.Text
	}
	return e.Sentinel().Error()
}

// Is makes errors.Is find the sentinel of the reason.
func (e *Error) Is(target error) bool { return target == e.Sentinel() }

// Sentinel returns the sentinel of the reason.
func (e *Error) Sentinel() error { return formOf(e.Reason).sentinel }

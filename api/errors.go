package api

import (
	"errors"
	"fmt"
	"time"

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

var sentinels = map[Reason]error{
	kinesinv1.Reason_REASON_INVALID:           ErrInvalid,
	kinesinv1.Reason_REASON_UNKNOWN_LAMBDA:    ErrUnknownLambda,
	kinesinv1.Reason_REASON_NOT_FOUND:         ErrNotFound,
	kinesinv1.Reason_REASON_KEY_CONFLICT:      ErrKeyConflict,
	kinesinv1.Reason_REASON_TOO_LATE:          ErrTooLate,
	kinesinv1.Reason_REASON_TOO_LARGE:         ErrTooLarge,
	kinesinv1.Reason_REASON_FULL:              ErrFull,
	kinesinv1.Reason_REASON_THROTTLED:         ErrThrottled,
	kinesinv1.Reason_REASON_UNAVAILABLE:       ErrUnavailable,
	kinesinv1.Reason_REASON_LEASE_LOST:        ErrLeaseLost,
	kinesinv1.Reason_REASON_FENCED:            ErrFenced,
	kinesinv1.Reason_REASON_EXISTS:            ErrExists,
	kinesinv1.Reason_REASON_IN_USE:            ErrInUse,
	kinesinv1.Reason_REASON_UNSUPPORTED:       ErrUnsupported,
	kinesinv1.Reason_REASON_INTERNAL:          ErrInternal,
	kinesinv1.Reason_REASON_UNAUTHENTICATED:   ErrUnauthenticated,
	kinesinv1.Reason_REASON_REGISTERED:        ErrRegistered,
	kinesinv1.Reason_REASON_PERMISSION_DENIED: ErrPermissionDenied,
	kinesinv1.Reason_REASON_STALE_SEQ:         ErrStaleSeq,
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
func (e *Error) Sentinel() error {
	if s, known := sentinels[e.Reason]; known {
		return s
	}
	return ErrInternal // a reason of a newer server
}

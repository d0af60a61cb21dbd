package httptarget

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/target"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// errorBytesMax is how much of the body of a failure is kept as the error of its attempt.
	errorBytesMax = 1024
)

// answer is what came back of a call.
type answer struct {
	status int
	header http.Header
	body   []byte // of a success at most task.ResultBytesMax, else at most errorBytesMax
	long   bool   // the body had more
}

func readAnswer(r *http.Response) (*answer, error) {
	a, limit := &answer{status: r.StatusCode, header: r.Header}, errorBytesMax
	if a.isSuccess() {
		limit = task.ResultBytesMax
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, int64(limit)+1))
	if a.long = len(body) > limit; a.long {
		body = body[:limit]
	}
	a.body = body
	return a, err
}

// class returns the class of the status; "none" of nil, which is no answer.
func (a *answer) class() string {
	if a == nil {
		return target.Class(0)
	}
	return target.Class(a.status)
}

func (a *answer) isSuccess() bool { return a.status >= 200 && a.status < 300 }

// isOverload reports whether the host says that it gets too much.
func (a *answer) isOverload() bool {
	return a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable
}

// outcome returns how an answer ends an attempt.
func (a *answer) outcome(t *sdk.Task[[]byte], host string, now time.Time) controller.Outcome {
	o := controller.Outcome{Kind: task.OutcomeFatal}
	switch {
	case a.isSuccess():
		o.Kind = task.OutcomeSuccess
		if len(a.body) > 0 && !a.long {
			o.Result = a.body
		}
		return o
	case a.isOverload():
		o.Kind = task.OutcomeRetriable
		if d, said := a.retryAfter(now); said && target.MayPutOff(t) {
			o.Kind, o.Delay = task.OutcomeSnoozed, d
		}
	case a.status == http.StatusRequestTimeout || a.status == http.StatusTooEarly || a.status >= 500:
		o.Kind = task.OutcomeRetriable
	}
	o.Error = fmt.Sprintf("%s answered %d %s", host, a.status, http.StatusText(a.status))
	if len(a.body) > 0 {
		o.Error += ": " + string(a.body)
	}
	return o
}

// retryAfter returns how long the host wants to be left alone.
func (a *answer) retryAfter(now time.Time) (time.Duration, bool) {
	text := a.header.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second, seconds > 0
	}
	at, err := http.ParseTime(text)
	return at.Sub(now), err == nil && at.After(now)
}

// noAnswer returns how an attempt ends that got no answer. The error has neither the URL, which may have a
// secret, nor addresses of this network, since whoever may read the task can read it.
func noAnswer(host string, err error) controller.Outcome {
	if u, is := errors.AsType[*url.Error](err); is {
		err = u.Err
	}
	if errors.Is(err, ErrForbidden) {
		return controller.Outcome{Kind: task.OutcomeFatal, Error: fmt.Sprintf("%s is not called: %v", host, ErrForbidden)}
	}
	if d, is := errors.AsType[*net.DNSError](err); is {
		err = errors.New(d.Err)
	} else if o, is := errors.AsType[*net.OpError](err); is {
		err = o.Err
	}
	return controller.Outcome{Kind: task.OutcomeRetriable, Error: fmt.Sprintf("no answer from %s: %v", host, err)}
}

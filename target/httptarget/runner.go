package httptarget

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/target"
	"github.com/kinesin-io/kinesin/task"
)

// Runner calls a target. Its Run is an sdk.Handler.
type Runner struct {
	client *Client
	target task.Target
	url    *task.TargetURL
}

// Runner returns the runner of an http target; task.ErrInvalid refuses its settings.
func (c *Client) Runner(t task.Target) (*Runner, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	u, err := task.ParseTargetURL(t.URL)
	return &Runner{client: c, target: t, url: u}, err
}

// Run makes one call, and ends the attempt by its answer.
func (r *Runner) Run(ctx context.Context, t *sdk.Task[[]byte]) error {
	return target.Conclude(t, r.Outcome(ctx, t))
}

// waitDefault is how long a call waits for the window of its host where it may take any time.
const waitDefault = time.Minute

// putOff is how long a task stays away whose host takes no more calls, by how often that happened.
var putOff = backoff.Policy{Min: time.Second, Max: time.Minute}

// Outcome waits until the host takes one more call, makes it, and returns how its answer ends the attempt. A task that waits
// too long is put off, which is no failure.
func (r *Runner) Outcome(ctx context.Context, t *sdk.Task[[]byte]) (o controller.Outcome) {
	u, err := r.url.Of(t.Key, t.Tags)
	if err != nil {
		return controller.Outcome{Kind: task.OutcomeFatal, Error: err.Error()}
	}
	token, ended, done, err := r.client.callback(ctx, t)
	defer done()
	if err != nil {
		return controller.Outcome{Kind: task.OutcomeRetriable, Error: err.Error()}
	}
	w := r.client.windows.get(u.Host)
	if w != nil {
		switch err := w.enter(ctx, r.client.clock, cmp.Or(t.Timeout, waitDefault)); {
		case errors.Is(err, errBusy):
			return controller.Outcome{Kind: task.OutcomeSnoozed, Delay: putOff.Pause(r.client.clock, target.PutOffs(t)), Error: u.Host + " is not called now: " + err.Error()}
		case err != nil:
			return noAnswer(u.Host, err)
		}
	}
	ctx, timed := target.Within(ctx, t)
	defer timed(&o)
	a, err := r.call(ctx, w, t, u, token)
	r.client.called(t.Lambda, a.class())
	if err != nil {
		return noAnswer(u.Host, err)
	}
	if a.status == http.StatusAccepted && token != "" {
		select {
		case o := <-ended: // it is recorded; the worker reports the same
			return o
		case <-ctx.Done():
			return controller.Outcome{Kind: task.OutcomeRetriable, Error: fmt.Sprintf("%s answered 202 Accepted, and did not report how it ended", u.Host)}
		}
	}
	return a.outcome(t, u.Host, r.client.clock.Now().Time())
}

// call makes the call, in a window that it has entered, if the host has one.
func (r *Runner) call(ctx context.Context, w *window, t *sdk.Task[[]byte], u *url.URL, token string) (a *answer, err error) {
	v := unknown
	if began := r.client.clock.Now(); w != nil {
		defer func() { w.leave(v, began, r.client.clock.Now()) }()
	}
	request, err := r.request(ctx, t, u)
	if err != nil {
		return nil, err
	}
	if token != "" {
		request.Header.Set("kinesin-callback-token", token)
	}
	client, err := r.client.identified(request)
	if err != nil {
		return nil, err
	}
	a, err = answerTo(client, request)
	v = verdictOf(ctx, a, err)
	return a, err
}

// answerTo makes a call.
func answerTo(client *http.Client, request *http.Request) (*answer, error) {
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	return readAnswer(response)
}

// verdictOf returns what a call tells of its host.
func verdictOf(ctx context.Context, a *answer, err error) verdict {
	switch {
	case err != nil && ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return unknown
	case err != nil || a.isOverload():
		return overloaded
	}
	return good
}

// request returns the call for an attempt.
func (r *Runner) request(ctx context.Context, t *sdk.Task[[]byte], u *url.URL) (*http.Request, error) {
	method, body := r.target.Method, t.Payload
	if method == "" {
		method = task.TargetMethodDefault
	}
	if method == http.MethodGet || method == http.MethodDelete {
		body = nil
	}
	request, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	h := request.Header
	h.Set("User-Agent", r.client.userAgent)
	if len(body) > 0 {
		h.Set("Content-Type", contentType(body))
	}
	for name, value := range r.target.Headers {
		h.Set(name, value)
	}
	describe(h, t)
	sign(h, r.target.Secrets, string(t.ID), r.client.clock.Now().Time(), body)
	return request, nil
}

// describe adds the headers that describe an attempt.
func describe(h http.Header, t *sdk.Task[[]byte]) {
	h.Set("kinesin-task", string(t.ID))
	h.Set("kinesin-attempt", strconv.Itoa(t.Attempt))
	h.Set("kinesin-lambda", t.Lambda)
	h.Set("kinesin-due", t.Due.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	if t.Key != "" {
		h.Set("kinesin-key", url.PathEscape(t.Key)) // it may have any character
	}
	if o := t.Occurrence; o != nil {
		h.Set("kinesin-nominal", o.Nominal.UTC().Format(time.RFC3339))
	}
	if t.Traceparent != "" {
		h.Set("traceparent", t.Traceparent)
	}
}

// contentType tells the forms of a payload apart, as the API does.
func contentType(payload []byte) string {
	switch {
	case !utf8.Valid(payload):
		return "application/octet-stream"
	case json.Valid(payload):
		return "application/json"
	}
	return "text/plain; charset=utf-8"
}

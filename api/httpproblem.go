package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// PlainPrefix is the beginning of the paths of the plain HTTP API (package internal/rest). Its refusals are
// HTTPProblems. The paths of procedures begin with the name of their service.
const PlainPrefix = "/v1/"

// ProblemType is the content type of an HTTPProblem.
const ProblemType = "application/problem+json"

// retryAfterDefault is what Retry-After says of a refusal that is over soon and does not say when.
const retryAfterDefault = time.Second

// HTTPProblem is a refusal as the plain HTTP API returns it: the problem details of RFC 9457.
type HTTPProblem struct {
	Type       string `json:"type" jsonschema:"a name for this kind of problem: urn:kinesin:problem: and the reason, or about:blank"`
	Title      string `json:"title" jsonschema:"the kind of problem, for people"`
	Status     int    `json:"status" jsonschema:"the HTTP status"`
	Detail     string `json:"detail" jsonschema:"what was wrong, and what is allowed"`
	Reason     string `json:"reason,omitempty" jsonschema:"the kind of problem, for programs"`
	RetryAfter string `json:"retry_after,omitempty" jsonschema:"when to try again, as a duration such as 1s"`
}

// AttemptReport is what the target of a lambda says of an attempt after it answered 202.
type AttemptReport struct {
	Outcome string          `json:"outcome" jsonschema:"success, retriable_failure or fatal_failure; running asks whether to go on, and extends nothing"`
	Result  json.RawMessage `json:"result,omitempty" jsonschema:"of a success: any JSON value, at most 32 KiB"`
	Error   string          `json:"error,omitempty" jsonschema:"of a failure: why"`
}

// statusOf returns the HTTP status of a refusal. REASON_FULL is about the store, until somebody makes space,
// or, if the problem says when to try again, about something that empties by itself.
func statusOf(p *kinesinv1.Problem) int {
	if p.Reason == kinesinv1.Reason_REASON_FULL && p.RetryAfter > 0 {
		return http.StatusTooManyRequests
	}
	return formOf(p.Reason).status
}

// HTTPProblemOf returns the plain form of a problem.
func HTTPProblemOf(p *kinesinv1.Problem) HTTPProblem {
	status := statusOf(p)
	reason := strings.ToLower(strings.TrimPrefix(p.Reason.String(), "REASON_"))
	problem := HTTPProblem{
		Type: "urn:kinesin:problem:" + reason, Title: strings.ReplaceAll(reason, "_", " "), Status: status, Detail: p.Text, Reason: reason,
	}
	after := time.Duration(p.RetryAfter) * time.Microsecond
	if after == 0 && status == http.StatusServiceUnavailable {
		after = retryAfterDefault
	}
	if after > 0 {
		problem.RetryAfter = string(AppendDuration(nil, after.Microseconds()))
	}
	return problem
}

// StatusProblem returns a problem with the request itself, which has a status and no reason.
func StatusProblem(status int, detail string) HTTPProblem {
	return HTTPProblem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: Visible(detail)}
}

// Write answers with the problem.
func (p HTTPProblem) Write(w http.ResponseWriter) {
	if after, err := time.ParseDuration(p.RetryAfter); err == nil {
		w.Header().Set("Retry-After", strconv.Itoa(int((after+time.Second-1)/time.Second)))
	}
	if p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(p) // strings and a number
	w.Header().Set("Content-Type", ProblemType)
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body.Bytes()) // fails only if the caller has gone
}

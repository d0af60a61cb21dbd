package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/task"
)

const (
	callbackPath = api.PlainPrefix + "attempts/" // and the token
	// callbackBytesMax bounds a report: a result of 32 KiB, escaped, and an error.
	callbackBytesMax = 256 << 10
)

// callbackOutcomes are the outcomes that a receiver may report.
var callbackOutcomes = map[string]task.Outcome{ //nolint:gochecknoglobals // a table
	task.OutcomeSuccess.String(): task.OutcomeSuccess, task.OutcomeRetriable.String(): task.OutcomeRetriable, task.OutcomeFatal.String(): task.OutcomeFatal,
}

// withCallbacks takes the reports of receivers that answered 202. Their token is what they may do; they need no
// other, and no record has it. No http.ServeMux, which redirects paths that keys may make.
func (s *Server) withCallbacks(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, is := strings.CutPrefix(r.URL.Path, callbackPath)
		if !is {
			next.ServeHTTP(w, r)
			return
		}
		if r.Method != http.MethodPost {
			w.Header().Set("Allow", http.MethodPost)
			api.StatusProblem(http.StatusMethodNotAllowed, fmt.Sprintf("%s is not served at %s: want POST", r.Method, callbackPath)).Write(w)
			return
		}
		answer, err := s.takeReport(w, r, token)
		if err == nil {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(answer) // the receiver is gone
			return
		}
		api.HTTPProblemOf(api.ProblemOf(err)).Write(w)
	})
}

// takeReport looks at the token before it reads the body.
func (s *Server) takeReport(w http.ResponseWriter, r *http.Request, token string) (map[string]bool, error) {
	ctx := access.With(r.Context(), serverCaller())
	c, err := s.node.OpenCallback(ctx, token)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, callbackBytesMax))
	if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
		return nil, api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE, "report of more than %d bytes", callbackBytesMax)
	}
	var report api.AttemptReport
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err != nil || !json.Valid(body) || d.Decode(&report) != nil {
		return nil, api.Errorf(kinesinv1.Reason_REASON_INVALID, `no report: want JSON with outcome, result and error, such as {"outcome":"success","result":{"n":1}}`)
	}
	if report.Outcome == "running" {
		cancel, err := s.node.Running(ctx, c)
		return map[string]bool{"cancel": cancel}, err
	}
	kind, known := callbackOutcomes[report.Outcome]
	if !known {
		return nil, api.Errorf(kinesinv1.Reason_REASON_INVALID, "outcome %q: want success, retriable_failure, fatal_failure or running", api.Visible(report.Outcome))
	}
	o := controller.Outcome{Kind: kind, Error: task.ErrorText(report.Error)}
	if kind == task.OutcomeSuccess {
		o.Result = report.Result
	}
	if err := s.node.Report(ctx, c, &kinesinv1.Result{Outcome: report.Outcome, Error: o.Error, Result: o.Result}); err != nil {
		return nil, err
	}
	if s.targets != nil {
		s.targets.Ended(token, o)
	}
	return map[string]bool{}, nil
}

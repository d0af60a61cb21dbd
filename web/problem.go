package web

import (
	"errors"
	"net/http"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// problem is what went wrong.
type problem struct {
	Status int
	Title  string
	Text   string
	Advice string
}

// problemError is an error that says by itself what a viewer reads.
type problemError struct{ problem }

// Error returns the text.
func (p problemError) Error() string { return p.Text }

var (
	errNoPage   = errors.New("there is no such page")
	errReadOnly = errors.New("this console is read-only: serve was started with --console-read-only")
)

func invalid(format string, args ...any) error {
	return api.Errorf(kinesinv1.Reason_REASON_INVALID, format, args...)
}

// problemOf returns what an error says to a viewer. Of an internal one he learns nothing but that.
func problemOf(err error) problem {
	var own problemError
	switch {
	case errors.As(err, &own):
		return own.problem
	case errors.Is(err, errNoPage):
		return problem{http.StatusNotFound, "No such page", "There is no page of this name.", "The menu leads to all pages."}
	case errors.Is(err, errReadOnly):
		return problem{http.StatusForbidden, "Read-only", err.Error() + ".", "Use the command line, or a console of another server."}
	}
	p := api.HTTPProblemOf(api.ProblemOf(err))
	of := problem{Status: p.Status, Title: strings.ToUpper(p.Title[:1]) + p.Title[1:], Text: p.Detail}
	switch p.Status {
	case http.StatusForbidden:
		of.Advice = "An administrator grants rights with a token or in the policy file."
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		of.Advice = "Try again in a moment."
	case http.StatusNotImplemented:
		of.Advice = "Ask a server with the role inbound."
	}
	return of
}

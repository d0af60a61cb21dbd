// Package fakelambda is a stand-in of AWS Lambda for tests: an HTTP handler with the call Invoke, on which the
// real client works. It keeps AWS Lambda's limits of the payload and the client context, and runs functions
// that tests write. An event is run once, after it was accepted.
//
// Not modelled: names that are no ARNs, versions, permissions, concurrency, retries of events and log tails;
// it refuses what it does not know.
package fakelambda

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/kinesin-io/kinesin/internal/awsfake"
)

// Invoke is the name of the call in awsfake.Faults. Of its faults there are Stalled (until the caller is gone), Denied,
// Throttled, Refused (a server error), and LostRequest and LostAnswer, which reset the connection.
const Invoke = "Invoke"

// Limits of the service.
const (
	payloadBytesMax       = 6 << 20
	eventBytesMax         = 1 << 20
	clientContextBytesMax = 3583
	path                  = "/2015-03-31/functions/"
)

// Invocation is what a function gets.
type Invocation struct {
	Payload []byte
	Custom  map[string]string // of the client context; nil for an event
	Region  string            // for which the request was signed
}

// FunctionError is the error of a function.
type FunctionError struct {
	Type    string `json:"errorType"`
	Message string `json:"errorMessage"`
	Handled bool   `json:"-"`
}

// Error returns the type and the message.
func (f *FunctionError) Error() string { return f.Type + ": " + f.Message }

// Function runs an invocation. Its context ends when the caller is gone. An error that is no *FunctionError is one of
// type "Error".
type Function func(ctx context.Context, i Invocation) (answer []byte, err error)

// Lambda is an http.Handler. It is safe for concurrent use.
type Lambda struct {
	Faults *awsfake.Faults
	// RetryAfterSeconds is told with a Throttled; 0: nothing is.
	RetryAfterSeconds int

	mu        sync.Mutex // guards functions
	functions map[string]Function
	events    sync.WaitGroup
}

// New returns a Lambda without functions.
func New() *Lambda { return &Lambda{Faults: awsfake.NewFaults(1), functions: map[string]Function{}} }

// Function adds or replaces the function with an ARN.
func (l *Lambda) Function(arn string, f Function) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.functions[arn] = f
}

// Wait waits for the events that were accepted.
func (l *Lambda) Wait() { l.events.Wait() }

// ServeHTTP is Invoke.
func (l *Lambda) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case l.Faults.Strikes(Invoke, awsfake.Stalled):
		_, _ = io.Copy(io.Discard, r.Body) // only then is it known when the caller is gone
		<-r.Context().Done()
	case l.Faults.Strikes(Invoke, awsfake.Denied):
		refuse(w, http.StatusForbidden, "AccessDeniedException", "User: arn:aws:iam::000000000000:role/secret is not authorized to perform: lambda:InvokeFunction")
	case l.Faults.Strikes(Invoke, awsfake.Throttled):
		if l.RetryAfterSeconds > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(l.RetryAfterSeconds))
		}
		refuse(w, http.StatusTooManyRequests, "TooManyRequestsException", "Rate Exceeded.")
	case l.Faults.Strikes(Invoke, awsfake.Refused):
		refuse(w, http.StatusInternalServerError, "ServiceException", "We encountered an internal error.")
	case l.Faults.Strikes(Invoke, awsfake.LostRequest):
		reset()
	default:
		l.invoke(w, r)
	}
}

// reset ends the connection without an answer.
func reset() { panic(http.ErrAbortHandler) }

func (l *Lambda) invoke(w http.ResponseWriter, r *http.Request) {
	name, isInvoke := strings.CutSuffix(strings.TrimPrefix(r.URL.EscapedPath(), path), "/invocations")
	arn, err := url.PathUnescape(name)
	if r.Method != http.MethodPost || !isInvoke || err != nil {
		refuse(w, http.StatusNotFound, "UnknownOperationException", "The fake has only Invoke.")
		return
	}
	l.mu.Lock()
	f := l.functions[arn]
	l.mu.Unlock()
	i, isEvent, problem := read(w, r)
	switch {
	case f == nil:
		refuse(w, http.StatusNotFound, "ResourceNotFoundException", "Function not found: "+arn)
	case problem != "":
		refuse(w, http.StatusBadRequest, "InvalidRequestContentException", problem)
	case isEvent:
		l.events.Go(func() { _, _ = f(context.WithoutCancel(r.Context()), i) }) // nobody learns how it ended
		w.WriteHeader(http.StatusAccepted)
	default:
		l.answer(w, r, f, i)
	}
}

// read reads an invocation, and says what is wrong with it.
func read(w http.ResponseWriter, r *http.Request) (i Invocation, isEvent bool, problem string) {
	limit := int64(payloadBytesMax)
	if isEvent = r.Header.Get("X-Amz-Invocation-Type") == "Event"; isEvent {
		limit = eventBytesMax
	}
	payload, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	switch {
	case err != nil:
		return i, isEvent, "Request must be smaller than " + strconv.FormatInt(limit, 10) + " bytes."
	case len(payload) > 0 && !json.Valid(payload):
		return i, isEvent, "Could not parse request body into json."
	}
	i.Payload = payload
	if _, scope, found := strings.Cut(r.Header.Get("Authorization"), "Credential="); found {
		if parts := strings.Split(scope, "/"); len(parts) > 2 { // KEY/DATE/REGION/…
			i.Region = parts[2]
		}
	}
	text := r.Header.Get("X-Amz-Client-Context")
	if text == "" || isEvent {
		return i, isEvent, ""
	}
	decoded, err := base64.StdEncoding.DecodeString(text)
	var client struct {
		Custom map[string]string `json:"custom"`
	}
	if err != nil || len(text) > clientContextBytesMax || json.Unmarshal(decoded, &client) != nil {
		return i, isEvent, "Client context must be a valid Base64-encoded JSON object."
	}
	i.Custom = client.Custom
	return i, isEvent, ""
}

// answer runs a function and writes what it returns.
func (l *Lambda) answer(w http.ResponseWriter, r *http.Request, f Function, i Invocation) {
	answer, err := f(r.Context(), i)
	if l.Faults.Strikes(Invoke, awsfake.LostAnswer) {
		reset()
	}
	if err != nil {
		failure, is := err.(*FunctionError) //nolint:errorlint // what a function of a test returned
		if !is {
			failure = &FunctionError{Type: "Error", Message: err.Error(), Handled: true}
		}
		kind := "Unhandled"
		if failure.Handled {
			kind = "Handled"
		}
		w.Header().Set("X-Amz-Function-Error", kind)
		answer, _ = json.Marshal(failure) // text always has a JSON
	}
	w.Header().Set("X-Amz-Executed-Version", "$LATEST")
	_, _ = w.Write(answer) // the caller may be gone
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Amzn-Errortype", code)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"message": message}) // the caller may be gone
}

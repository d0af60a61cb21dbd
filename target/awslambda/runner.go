package awslambda

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"

	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/target"
	"github.com/kinesin-io/kinesin/task"
)

// API has the call of the AWS SDK that a Runner needs; *lambda.Client has it.
type API interface {
	Invoke(ctx context.Context, in *lambda.InvokeInput, options ...func(*lambda.Options)) (*lambda.InvokeOutput, error)
}

// Runner invokes one function. Its Run is an sdk.Handler.
type Runner struct {
	api    API
	arn    string
	region string
	async  bool

	// Called is called after each invocation, with the target.Class of its answer; nil: it is not.
	Called func(lambda, class string)
}

// New returns the runner of the function with an ARN, in whatever region it is. With async, a success means
// that AWS Lambda has queued the event, and not that the function ran.
func New(api API, arn string, async bool) *Runner {
	r := &Runner{api: api, arn: arn, async: async}
	if parts := strings.Split(arn, ":"); len(parts) > 3 { // arn:aws:lambda:REGION:…
		r.region = parts[3]
	}
	return r
}

// Run makes one invocation, and ends the attempt by its answer.
func (r *Runner) Run(ctx context.Context, t *sdk.Task[[]byte]) error {
	return target.Conclude(t, r.Outcome(ctx, t))
}

// Outcome makes one invocation, and returns how its answer ends the attempt.
func (r *Runner) Outcome(ctx context.Context, t *sdk.Task[[]byte]) (o controller.Outcome) {
	ctx, done := target.Within(ctx, t)
	defer done(&o)
	in := &lambda.InvokeInput{FunctionName: &r.arn, Payload: event(t.Payload), InvocationType: types.InvocationTypeEvent}
	if !r.async {
		in.InvocationType, in.ClientContext = types.InvocationTypeRequestResponse, clientContext(t)
	}
	out, err := r.api.Invoke(ctx, in, r.options)
	if r.Called != nil {
		r.Called(t.Lambda, target.Class(statusOf(out, err)))
	}
	switch {
	case err != nil:
		return r.refused(t, err)
	case out.FunctionError != nil:
		return failed(out.Payload)
	}
	return controller.Outcome{Kind: task.OutcomeSuccess, Result: result(out.Payload)}
}

// statusOf returns the HTTP status of an answer; 0 if there was none.
func statusOf(out *lambda.InvokeOutput, err error) int {
	if err == nil {
		return int(out.StatusCode)
	}
	if refused, has := errors.AsType[*awshttp.ResponseError](err); has {
		return refused.HTTPStatusCode()
	}
	return 0
}

// options sends a request to the function's region, and once: a second invocation is a second attempt.
func (r *Runner) options(o *lambda.Options) {
	o.Region, o.Retryer, o.HTTPClient = r.region, aws.NopRetryer{}, bounded{o.HTTPClient}
}

// answerBytesMax is how much of an answer is read: a result, or a byte more than one may have.
const answerBytesMax = task.ResultBytesMax + 1

// bounded is a client that reads at most answerBytesMax of an answer.
type bounded struct{ lambda.HTTPClient }

// Do makes a request.
func (b bounded) Do(request *http.Request) (*http.Response, error) {
	response, err := b.HTTPClient.Do(request)
	if err == nil {
		response.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(response.Body, answerBytesMax), response.Body}
	}
	return response, err
}

// event returns the payload as a function gets it: JSON as it is, and anything else as an object with the
// payload's form in the HTTP API.
func event(payload []byte) []byte {
	if len(payload) == 0 || json.Valid(payload) {
		return payload
	}
	form := map[string]any{"payload_base64": payload}
	if utf8.Valid(payload) {
		form = map[string]any{"payload_text": string(payload)}
	}
	encoded, _ := json.Marshal(form) // text and bytes always have a JSON
	return encoded
}

const dueForm = "2006-01-02T15:04:05.000Z07:00"

// clientContext describes an attempt to the function, in the form that AWS Lambda's libraries read. It always
// has fewer than the 3,583 bytes that AWS Lambda takes.
func clientContext(t *sdk.Task[[]byte]) *string {
	custom := map[string]string{
		"kinesin-task": string(t.ID), "kinesin-attempt": strconv.Itoa(t.Attempt), "kinesin-lambda": t.Lambda, "kinesin-due": t.Due.UTC().Format(dueForm),
	}
	if t.Key != "" {
		custom["kinesin-key"] = t.Key
	}
	if t.Occurrence != nil {
		custom["kinesin-nominal"] = t.Occurrence.Nominal.UTC().Format(time.RFC3339)
	}
	if t.Traceparent != "" {
		custom["traceparent"] = t.Traceparent
	}
	text, _ := json.Marshal(map[string]any{"custom": custom}) // text always has a JSON
	return aws.String(base64.StdEncoding.EncodeToString(text))
}

// result returns what is kept of what a function returned: nil if that is nothing, or more than a result may
// have.
func result(answer []byte) []byte {
	if len(answer) == 0 || len(answer) > task.ResultBytesMax || string(answer) == "null" {
		return nil
	}
	return answer
}

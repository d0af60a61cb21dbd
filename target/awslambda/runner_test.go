package awslambda_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakelambda"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/target/awslambda"
	"github.com/kinesin-io/kinesin/task"
)

const arn = "arn:aws:lambda:eu-west-2:123456789012:function:mail"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stand returns a fake, and a client of it whose own region is another one than that of arn.
func stand(t *testing.T) (*fakelambda.Lambda, *lambda.Client) {
	t.Helper()
	fake := fakelambda.New()
	srv := httptest.NewServer(fake)
	t.Cleanup(srv.Close)
	t.Cleanup(fake.Wait)
	return fake, clientOf(t, srv.URL)
}

func clientOf(t *testing.T, url string) *lambda.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return lambda.NewFromConfig(aws.Config{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "not-a-secret", ""), HTTPClient: &http.Client{Transport: transport},
	}, func(o *lambda.Options) { o.BaseEndpoint = &url })
}

func attempt(payload string) *sdk.Task[[]byte] {
	return &sdk.Task[[]byte]{
		ID: "k1abc", Lambda: "mail", Key: "a/b", Attempt: 3, Failures: 1, Payload: []byte(payload), Due: time.UnixMilli(1234),
		Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", Occurrence: &sdk.Occurrence{Nominal: time.Unix(1, 0)},
	}
}

func TestHowAFunctionEndsAnAttempt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", task.ResultBytesMax-2)
	for name, c := range map[string]struct {
		answer string
		err    error
		want   controller.Outcome
	}{
		"a result":                {`{"n":1}`, nil, controller.Outcome{Kind: task.OutcomeSuccess, Result: []byte(`{"n":1}`)}},
		"nothing":                 {"null", nil, controller.Outcome{Kind: task.OutcomeSuccess}},
		"the longest result":      {`"` + long + `"`, nil, controller.Outcome{Kind: task.OutcomeSuccess, Result: []byte(`"` + long + `"`)}},
		"a result that is longer": {`"` + long + `x"`, nil, controller.Outcome{Kind: task.OutcomeSuccess}},
		"a handled error":         {"", errors.New("no"), controller.Outcome{Kind: task.OutcomeRetriable, Error: "the function failed: Error: no"}},
		"an unhandled error": {
			"", &fakelambda.FunctionError{Type: "Sandbox.Timedout", Message: "Task timed out"},
			controller.Outcome{Kind: task.OutcomeRetriable, Error: "the function failed: Sandbox.Timedout: Task timed out"},
		},
		"an error without a type": {"", &fakelambda.FunctionError{Message: "exit status 1"}, controller.Outcome{Kind: task.OutcomeRetriable, Error: "the function failed: exit status 1"}},
		"a fatal error": {
			"", &fakelambda.FunctionError{Type: "com.example.KinesinFatal", Message: "no such user", Handled: true},
			controller.Outcome{Kind: task.OutcomeFatal, Error: "the function failed: com.example.KinesinFatal: no such user"},
		},
	} {
		fake, client := stand(t)
		fake.Function(arn, func(context.Context, fakelambda.Invocation) ([]byte, error) { return []byte(c.answer), c.err })
		got := awslambda.New(client, arn, false).Outcome(t.Context(), attempt("{}"))
		if got.Kind != c.want.Kind || got.Error != c.want.Error || !bytes.Equal(got.Result, c.want.Result) || got.Delay != 0 {
			t.Errorf("%s: %v with error %q and %d bytes, want %v with %q and %d", name, got.Kind, got.Error, len(got.Result), c.want.Kind, c.want.Error, len(c.want.Result))
		}
	}
}

func TestALongDescriptionOfAFailure(t *testing.T) {
	t.Parallel()
	fake, client := stand(t)
	fake.Function(arn, func(context.Context, fakelambda.Invocation) ([]byte, error) {
		return nil, errors.New(strings.Repeat("x", task.ResultBytesMax+1))
	})
	got := awslambda.New(client, arn, false).Outcome(t.Context(), attempt("{}"))
	if got.Kind != task.OutcomeRetriable || !strings.HasPrefix(got.Error, `the function failed: {"errorType":"Error","errorMessage":"xxx`) {
		t.Errorf("%v, %.100q", got.Kind, got.Error)
	}
}

func TestWhatAFunctionGets(t *testing.T) {
	t.Parallel()
	fake, client := stand(t)
	var got fakelambda.Invocation
	fake.Function(arn, func(_ context.Context, i fakelambda.Invocation) ([]byte, error) {
		got = i
		return []byte("true"), nil
	})
	for payload, want := range map[string]string{
		`{"a": 1}`: `{"a": 1}`, `"text"`: `"text"`, "": "", "Hello <you>": `{"payload_text":"Hello \u003cyou\u003e"}`, "\xff\x00": `{"payload_base64":"/wA="}`,
	} {
		if o := awslambda.New(client, arn, false).Outcome(t.Context(), attempt(payload)); o.Kind != task.OutcomeSuccess || string(got.Payload) != want {
			t.Errorf("payload %q came as %q (%+v), want %q", payload, got.Payload, o, want)
		}
	}
	described := `{"kinesin-attempt":"3","kinesin-due":"1970-01-01T00:00:01.234Z","kinesin-key":"a/b","kinesin-lambda":"mail",` +
		`"kinesin-nominal":"1970-01-01T00:00:01Z","kinesin-task":"k1abc","traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}`
	if text, _ := json.Marshal(got.Custom); string(text) != described {
		t.Errorf("the attempt came as %s, want %s", text, described)
	}
	if got.Region != "eu-west-2" {
		t.Errorf("signed for region %q, want that of the function", got.Region)
	}
}

// The description of an attempt fits, however long its parts are.
func TestTheLongestDescription(t *testing.T) {
	t.Parallel()
	fake, client := stand(t)
	var got fakelambda.Invocation
	fake.Function(arn, func(_ context.Context, i fakelambda.Invocation) ([]byte, error) {
		got = i
		return nil, nil
	})
	of := attempt("{}")
	of.ID, of.Lambda, of.Key = sdk.ID(strings.Repeat("i", 512)), strings.Repeat("l", 64), strings.Repeat("<", api.KeyBytesMax)
	of.Traceparent, of.Attempt = strings.Repeat("0", task.TraceparentBytesMax), math.MaxUint32
	if o := awslambda.New(client, arn, false).Outcome(t.Context(), of); o.Kind != task.OutcomeSuccess || got.Custom["kinesin-key"] != of.Key {
		t.Errorf("%+v, with %v", o, got.Custom)
	}
}

func TestAnEvent(t *testing.T) {
	t.Parallel()
	fake, client := stand(t)
	ran := make(chan fakelambda.Invocation, 1)
	fake.Function(arn, func(_ context.Context, i fakelambda.Invocation) ([]byte, error) {
		ran <- i
		return []byte(`"nobody gets it"`), errors.New("nobody learns it")
	})
	o := awslambda.New(client, arn, true).Outcome(t.Context(), attempt(`{"a":1}`))
	if i := <-ran; o.Kind != task.OutcomeSuccess || o.Result != nil || string(i.Payload) != `{"a":1}` || i.Custom != nil {
		t.Errorf("%+v ran with %+v", o, i)
	}
}

func TestRefusedInvocations(t *testing.T) {
	t.Parallel()
	fake, client := stand(t)
	var ran atomic.Int32
	fake.Function(arn, func(context.Context, fakelambda.Invocation) ([]byte, error) {
		ran.Add(1)
		return nil, nil
	})
	r := awslambda.New(client, arn, false)
	for fault, want := range map[awsfake.Fault]controller.Outcome{
		awsfake.Denied:      {Kind: task.OutcomeFatal, Error: "AWS Lambda refused the invocation: AccessDeniedException: allow lambda:InvokeFunction on " + arn + " to the servers"},
		awsfake.Throttled:   {Kind: task.OutcomeRetriable, Error: "AWS Lambda refused the invocation: TooManyRequestsException: Rate Exceeded."},
		awsfake.Refused:     {Kind: task.OutcomeRetriable, Error: "AWS Lambda refused the invocation: ServiceException: We encountered an internal error."},
		awsfake.LostRequest: {Kind: task.OutcomeRetriable, Error: "no answer from AWS Lambda: EOF"},
	} {
		fake.Faults.Next(fakelambda.Invoke, fault, 1)
		if got := r.Outcome(t.Context(), attempt("{}")); got.Kind != want.Kind || got.Error != want.Error {
			t.Errorf("%s: %+v, want %+v", fault, got, want)
		}
	}
	if n := ran.Load(); n != 0 {
		t.Errorf("ran %d times, want never: an attempt is one invocation", n)
	}
	fake.Faults.Next(fakelambda.Invoke, awsfake.LostAnswer, 1)
	if got := r.Outcome(t.Context(), attempt("{}")); got.Kind != task.OutcomeRetriable || ran.Load() != 1 {
		t.Errorf("a lost answer: %+v, and ran %d times", got, ran.Load())
	}
	if got := awslambda.New(client, arn+"s", false).Outcome(t.Context(), attempt("{}")); got.Kind != task.OutcomeFatal || !strings.Contains(got.Error, "ResourceNotFoundException: Function not found") {
		t.Errorf("no such function: %+v", got)
	}
}

// Each code has the status with which AWS Lambda answers.
func TestCodesOfRefusals(t *testing.T) {
	t.Parallel()
	for code, c := range map[string]struct {
		status int
		want   task.Outcome
	}{
		"InvalidRequestContentException": {400, task.OutcomeFatal},
		"InvalidParameterValueException": {400, task.OutcomeFatal},
		"RecursiveInvocationException":   {400, task.OutcomeFatal},
		"RequestTooLargeException":       {413, task.OutcomeFatal},
		"UnsupportedMediaTypeException":  {415, task.OutcomeFatal},
		"UnrecognizedClientException":    {403, task.OutcomeRetriable},
		"InvalidSignatureException":      {403, task.OutcomeRetriable},
		"ExpiredTokenException":          {403, task.OutcomeRetriable},
		"ResourceConflictException":      {409, task.OutcomeRetriable},
		"SnapStartNotReadyException":     {409, task.OutcomeRetriable},
		"EC2ThrottledException":          {502, task.OutcomeRetriable},
		"ResourceNotReadyException":      {502, task.OutcomeRetriable},
		"ServiceUnavailableException":    {503, task.OutcomeRetriable},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Amzn-Errortype", code)
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(`{"message":"so it is"}`))
		}))
		if got := awslambda.New(clientOf(t, srv.URL), arn, false).Outcome(t.Context(), attempt("{}")); got.Kind != c.want || !strings.Contains(got.Error, code) {
			t.Errorf("%s: %+v, want %v", code, got, c.want)
		}
		srv.Close()
	}
}

func TestAThrottleThatPutsATaskOffWithoutEndIsAFailure(t *testing.T) {
	t.Parallel()
	fake, client := stand(t)
	fake.RetryAfterSeconds = 7
	fake.Faults.Odds(fakelambda.Invoke, awsfake.Throttled, 1)
	for attempts, want := range map[int]task.Outcome{102: task.OutcomeSnoozed, 103: task.OutcomeRetriable} {
		of := attempt("{}")
		of.Attempt, of.Failures, of.WorkerLost = attempts, 1, 1
		got := awslambda.New(client, arn, false).Outcome(t.Context(), of)
		if got.Kind != want || want == task.OutcomeSnoozed && got.Delay != 7*time.Second {
			t.Errorf("attempt %d: %+v, want %v", attempts, got, want)
		}
	}
}

// A function that hangs, and a connection on which nothing comes, end with the attempt, and the function's run
// is not waited for.
func TestTheEndOfAnAttemptEndsItsInvocation(t *testing.T) {
	t.Parallel()
	silent, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	fake, client := stand(t)
	reached := make(chan struct{}, 2)
	fake.Function(arn, func(ctx context.Context, _ fakelambda.Invocation) ([]byte, error) {
		reached <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	})
	go func() {
		if c, err := silent.Accept(); err == nil {
			reached <- struct{}{}
			<-t.Context().Done()
			_ = c.Close()
		}
	}()
	for _, c := range []*lambda.Client{client, clientOf(t, "http://"+silent.Addr().String())} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan controller.Outcome, 1)
		go func() { ended <- awslambda.New(c, arn, false).Outcome(ctx, attempt("{}")) }()
		<-reached
		cancel()
		if got := <-ended; got.Kind != task.OutcomeRetriable || got.Error != "no answer from AWS Lambda: context canceled" {
			t.Errorf("%+v", got)
		}
	}
}

func TestWhichFunctionsMayBeInvoked(t *testing.T) {
	t.Parallel()
	const account = "arn:aws:lambda:eu-west-2:123456789012:function:"
	for _, c := range []struct {
		allowed awslambda.Functions
		arn     string
		want    bool
	}{
		{nil, account + "mail", false},
		{awslambda.Functions{account + "mail"}, account + "mail", true},
		{awslambda.Functions{account + "mail"}, account + "mail2", false},
		{awslambda.Functions{account + "mail"}, account + "mail:prod", false},
		{awslambda.Functions{account + "sms", account + "mail-*"}, account + "mail-daily", true},
		{awslambda.Functions{account + "mail*"}, account + "mail:$LATEST", true},
		{awslambda.Functions{account + "*"}, "arn:aws:lambda:eu-west-2:999999999999:function:mail", false},
		{awslambda.Functions{"arn:aws:lambda:*:123456789012:function:mail"}, "arn:aws:lambda:us-east-1:123456789012:function:mail", true},
	} {
		err := c.allowed.Check(c.arn)
		if (err == nil) != c.want || err != nil && !errors.Is(err, task.ErrInvalid) {
			t.Errorf("%v with %v allowed: %v", c.arn, c.allowed, err)
		}
		if err := c.allowed.Validate(); err != nil {
			t.Error(err)
		}
	}
	refusal := awslambda.Functions{account + "a*", account + "b"}.Check(account + "c")
	if text := refusal.Error(); !strings.Contains(text, "only "+account+"a*, "+account+"b (serve --targets-functions)") {
		t.Error(text)
	}
	for _, pattern := range []string{"", "*", "mail", "https://example.com", account, "arn:aws:sqs:eu-west-2:123456789012:mail", account + "mail[a]", account + "m?il", account + `m\il`, account + "a b"} {
		if err := (awslambda.Functions{pattern}).Validate(); !errors.Is(err, task.ErrInvalid) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

// What the worker makes of Run is the outcome.
func TestRun(t *testing.T) {
	t.Parallel()
	fake, client := stand(t)
	fake.Function(arn, func(context.Context, fakelambda.Invocation) ([]byte, error) { return []byte("7"), nil })
	r := awslambda.New(client, arn, false)
	if err := r.Run(t.Context(), attempt("{}")); err != nil {
		t.Error(err)
	}
	fake.Faults.Next(fakelambda.Invoke, awsfake.Denied, 1)
	err := r.Run(t.Context(), attempt("{}"))
	if e, is := errors.AsType[*sdkconfig.OutcomeError](err); !is || e.Outcome.Kind != task.OutcomeFatal {
		t.Errorf("%v", err)
	}
}

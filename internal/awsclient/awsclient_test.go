package awsclient_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/internal/awsclient"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// environment sets all that the SDK looks for, and hides the settings of the user who runs the test.
func environment(t *testing.T, endpoint string) {
	t.Helper()
	for _, variable := range os.Environ() {
		if name, _, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "") // restores it afterwards
		}
	}
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull, "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "not-a-secret",
		"AWS_ENDPOINT_URL_DYNAMODB": endpoint, "AWS_ENDPOINT_URL_SQS": endpoint, "AWS_ENDPOINT_URL_LAMBDA": endpoint,
	} {
		t.Setenv(name, value)
	}
}

// answering is an endpoint that gives one answer to every request.
func answering(t *testing.T, status int, code, message string, header ...string) (url string, asked *int) {
	t.Helper()
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n++
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":%q}`, code, message)
	}))
	t.Cleanup(s.Close)
	return s.URL, &n
}

func clients(t *testing.T) *awsclient.Clients {
	t.Helper()
	c, err := awsclient.New(t.Context(), clock.Real())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func describe(ctx context.Context, c *awsclient.Clients) error {
	table := "p-tasks"
	_, err := c.DynamoDB.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	return awsclient.Explain(err)
}

func queueURL(ctx context.Context, c *awsclient.Clients) error {
	queue := "p-mail-high"
	_, err := c.SQS.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &queue})
	return awsclient.Explain(err)
}

// check checks the kind of an error, and that its one line has each text.
func check(t *testing.T, err, kind error, says ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%v\n is not %v", err, kind)
		return
	}
	for _, text := range append(says, "") {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not say %q", err, text)
		}
	}
	if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "not-a-secret") || len(err.Error()) > 500 {
		t.Errorf("%q: want one line of bearable length, without secrets", err)
	}
}

func TestRefusalsInOneSentence(t *testing.T) {
	for _, c := range []struct {
		name          string
		status        int
		code, message string
		kind          error
		says          []string
	}{
		{
			"denied", 400, "AccessDeniedException", "User: arn:aws:iam::1:user/u is not authorized to perform: dynamodb:DescribeTable",
			awsclient.ErrDenied,
			[]string{"denies dynamodb:DescribeTable", "arn:aws:iam::1:user/u"},
		},
		{
			"missing table", 400, "ResourceNotFoundException", "Requested resource not found: Table: p-tasks not found",
			awsclient.ErrMissing,
			[]string{"p-tasks", "kinesin aws setup", "AWS_REGION"},
		},
		{
			"unknown key", 400, "UnrecognizedClientException", "The security token included in the request is invalid.",
			awsclient.ErrCredentials,
			[]string{"refuses the credentials"},
		},
		{"session over", 400, "ExpiredTokenException", "The security token included in the request is expired", awsclient.ErrCredentials, nil},
		{"wrong secret", 400, "InvalidSignatureException", "The request signature we calculated does not match", awsclient.ErrCredentials, nil},
		{
			"another region", 400, "InvalidSignatureException", "Credential should be scoped to a valid region, not 'eu-west-1'.",
			awsclient.ErrRegion,
			[]string{"AWS_REGION"},
		},
		{
			"clock behind", 400, "InvalidSignatureException", "Signature expired: 20260101T000000Z is now earlier than 20260101T001000Z",
			awsclient.ErrClock,
			[]string{"clock is off", "synchronise"},
		},
		{
			"another service", 400, "UnknownOperationException", "", awsclient.ErrSettings,
			[]string{"the endpoint does not know dynamodb:DescribeTable", "AWS_ENDPOINT_URL", "that of DynamoDB?"},
		},
		{"throttled", 400, "ThrottlingException", "Rate exceeded", awsclient.ErrThrottled, []string{"throttles dynamodb:DescribeTable"}},
		{"broken", 500, "InternalServerError", "oops", awsclient.ErrUnreachable, []string{"status 500", "oops"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, asked := answering(t, c.status, c.code, c.message)
			environment(t, url)
			check(t, describe(t.Context(), clients(t)), c.kind, c.says...)
			if *asked > 3 {
				t.Errorf("asked %d times: want no storm of retries", *asked)
			}
		})
	}
}

func TestAMissingQueue(t *testing.T) {
	url, _ := answering(t, 400, "QueueDoesNotExist", "The specified queue does not exist.")
	environment(t, url)
	check(t, queueURL(t.Context(), clients(t)), awsclient.ErrMissing, "sqs:GetQueueUrl")
}

func TestAnEndpointThatIsDown(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	environment(t, url)
	c := clients(t)
	check(t, describe(t.Context(), c), awsclient.ErrUnreachable, "nothing answers dynamodb:DescribeTable at "+url, "refused")
	if awsclient.Lasting(describe(t.Context(), c)) {
		t.Error("an endpoint that is down may come back")
	}
}

func TestAnEndpointThatSaysNothing(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	environment(t, "http://"+l.Addr().String())
	ctx, cancel := clock.Within(t.Context(), clock.Real(), 50*time.Millisecond)
	defer cancel()
	check(t, describe(ctx, clients(t)), awsclient.ErrUnreachable, "in time")
}

func TestEndpointsThatAreNoURLs(t *testing.T) {
	for _, variable := range []string{"AWS_ENDPOINT_URL_DYNAMODB", "AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL_LAMBDA"} {
		for _, value := range []string{"not-a-url", "127.0.0.1:8000", "ftp://127.0.0.1", "http://", "http://a b"} {
			environment(t, "http://127.0.0.1:1")
			t.Setenv(variable, value)
			_, err := awsclient.New(t.Context(), clock.Real())
			check(t, err, awsclient.ErrSettings, value, variable, "such as http://127.0.0.1:8000")
			if !awsclient.Lasting(err) {
				t.Errorf("%s=%s does not pass", variable, value)
			}
		}
	}
}

func TestTheCauseBehindASentinel(t *testing.T) {
	err := fmt.Errorf("ask: %w: %w", errors.New("away"), &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")})
	if got := awsclient.Explain(err).Error(); !strings.HasSuffix(got, "(connection refused)") {
		t.Error(got)
	}
}

func TestAHostThatIsNot(t *testing.T) {
	err := awsclient.Explain(fmt.Errorf("asked: %w", &net.DNSError{Name: "dynamodb.eu-wst-1.amazonaws.com", IsNotFound: true}))
	check(t, err, awsclient.ErrUnreachable, "no host dynamodb.eu-wst-1.amazonaws.com", "AWS_REGION")
}

func TestAnEndpointThatIsSomethingElse(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	environment(t, s.URL)
	err := describe(t.Context(), clients(t))
	check(t, err, awsclient.ErrUnreachable, "not by AWS", "status 404")
}

func TestNoCredentials(t *testing.T) {
	environment(t, "http://127.0.0.1:1")
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	_, err := awsclient.New(t.Context(), clock.Real())
	check(t, err, awsclient.ErrCredentials, "AWS_ACCESS_KEY_ID", "AWS_PROFILE")
	if !awsclient.Lasting(err) {
		t.Error("they do not come by themselves")
	}
}

func TestNoRegion(t *testing.T) {
	environment(t, "http://127.0.0.1:1")
	t.Setenv("AWS_REGION", "")
	_, err := awsclient.New(t.Context(), clock.Real())
	check(t, err, awsclient.ErrRegion, "AWS_REGION")
}

func TestSettingsThatCannotBeRead(t *testing.T) {
	environment(t, "http://127.0.0.1:1")
	t.Setenv("AWS_PROFILE", "nobody")
	_, err := awsclient.New(t.Context(), clock.Real())
	check(t, err, awsclient.ErrSettings, "nobody")
}

// off is a clock that is off.
type off struct {
	clock.Clock
	by time.Duration
}

func (o off) Now() task.Instant { return o.Clock.Now().Add(o.by) }

func TestTheClockIsComparedWithAnswers(t *testing.T) {
	for _, c := range []struct {
		by   time.Duration
		says string // empty: fine
	}{{0, ""}, {time.Second, ""}, {-time.Second, ""}, {10 * time.Second, "ahead of that of AWS"}, {-10 * time.Minute, "behind that of AWS"}} {
		url, _ := answering(t, 400, "ValidationException", "no")
		environment(t, url)
		made, err := awsclient.New(t.Context(), off{clock.Real(), c.by})
		if err != nil {
			t.Fatal(err)
		}
		defer made.Close()
		if err := made.CheckClock(); err != nil {
			t.Errorf("refused before anything was asked: %v", err)
		}
		_ = describe(t.Context(), made)
		err = made.CheckClock()
		if c.says == "" {
			if err != nil {
				t.Errorf("off by %v: %v", c.by, err)
			}
			continue
		}
		check(t, err, awsclient.ErrClock, c.says, "synchronise")
	}
}

func TestWhatIsNotOfAWSIsLeftAlone(t *testing.T) {
	plain := errors.New("something else")
	for _, err := range []error{nil, plain, context.Canceled} {
		if got := awsclient.Explain(err); !errors.Is(got, err) || got != nil && got.Error() != err.Error() {
			t.Errorf("%v became %v", err, got)
		}
	}
}

func TestWhereRequestsGo(t *testing.T) {
	environment(t, "http://127.0.0.1:8000")
	t.Setenv("AWS_ENDPOINT_URL_SQS", "")
	if got, want := clients(t).Endpoints(), "DynamoDB at http://127.0.0.1:8000, SQS at eu-west-1"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

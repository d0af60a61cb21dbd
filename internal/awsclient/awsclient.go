// Package awsclient creates the AWS clients of this program, and explains their errors in one sentence.
// Region, credentials and endpoints come from where the AWS SDK looks for them: the environment
// (AWS_REGION, AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL_SQS …), the shared
// configuration files, and the machine or container. It owns timeouts, the connection pools and the retries
// of the SDK; it knows no table and no queue.
package awsclient

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Bounds of every request, in addition to those of the caller.
const (
	// dialMax and handshakeMax bound how long opening a connection takes.
	dialMax      = 2 * time.Second
	handshakeMax = 3 * time.Second
	// answerMax is how long DynamoDB may take to begin its answer. pollAnswerMax is the same for SQS, where
	// a long poll waits up to 20 s, and invokeAnswerMax for AWS Lambda, where a function runs up to 15 min.
	answerMax       = 5 * time.Second
	pollAnswerMax   = 25 * time.Second
	invokeAnswerMax = 16 * time.Minute
	// idleMax is how long an unused connection is kept. The services close it a little later.
	idleMax        = 50 * time.Second
	keepAliveEvery = 30 * time.Second
	// connectionsMax is how many unused connections to one service are kept. More concurrent requests open
	// new ones, which costs a handshake each.
	connectionsMax = 256
	// triesMax and backoffMax bound the retries of the SDK. Drivers with retries of their own turn these off.
	triesMax   = 3
	backoffMax = 300 * time.Millisecond
	// credentialsMax bounds the search for credentials. It ends at a metadata service that may not exist.
	credentialsMax = 6 * time.Second
)

// Clients are the AWS clients of this program. They are safe for concurrent use.
type Clients struct {
	DynamoDB *dynamodb.Client
	SQS      *sqs.Client
	Lambda   *lambda.Client
	Region   string

	clock      *serverClock
	transports []*http.Transport
}

// New creates the clients from the environment and the configuration files, and looks for credentials. It
// makes no request to DynamoDB, SQS or AWS Lambda. Its errors are those of Explain.
func New(ctx context.Context, c clock.Clock) (*Clients, error) {
	watch := &serverClock{clock: c}
	made := &Clients{clock: watch}
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRetryer(newRetryer))
	if err != nil {
		return nil, &Error{Kind: ErrSettings, Text: "the AWS settings cannot be read: " + oneLine(err.Error()), Err: err}
	}
	if cfg.Region == "" {
		return nil, &Error{Kind: ErrRegion, Text: "no AWS region is set: name one in AWS_REGION, such as eu-west-1, or in the profile that AWS_PROFILE names"}
	}
	made.Region = cfg.Region
	if err := findCredentials(ctx, c, cfg.Credentials); err != nil {
		return nil, err
	}
	base := transportOf(cfg.HTTPClient)
	made.DynamoDB = dynamodb.NewFromConfig(cfg, func(o *dynamodb.Options) {
		o.HTTPClient = made.httpClient(base, answerMax)
		// Emulators do not send the checksum, and each answer without one is a warning.
		o.DisableValidateResponseChecksum = !isAmazon(o.BaseEndpoint)
	})
	made.SQS = sqs.NewFromConfig(cfg, func(o *sqs.Options) { o.HTTPClient = made.httpClient(base, pollAnswerMax) })
	made.Lambda = lambda.NewFromConfig(cfg, func(o *lambda.Options) { o.HTTPClient = made.httpClient(base, invokeAnswerMax) })
	if err := cmp.Or(
		checkEndpoint("DynamoDB", made.DynamoDB.Options().BaseEndpoint),
		checkEndpoint("SQS", made.SQS.Options().BaseEndpoint),
		checkEndpoint("Lambda", made.Lambda.Options().BaseEndpoint),
	); err != nil {
		return nil, err
	}
	return made, nil
}

// checkEndpoint refuses an endpoint that is not a URL.
func checkEndpoint(service string, named *string) error {
	if named == nil {
		return nil
	}
	u, err := url.Parse(*named)
	if err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https") {
		return nil
	}
	return &Error{
		Kind: ErrSettings, Err: err,
		Text: fmt.Sprintf("the endpoint of %s, %q, is no URL: want one such as http://127.0.0.1:8000 in AWS_ENDPOINT_URL_%s, or none for that of the region",
			service, *named, strings.ToUpper(service)),
	}
}

// Close closes unused connections.
func (c *Clients) Close() {
	for _, t := range c.transports {
		t.CloseIdleConnections()
	}
}

// newRetryer returns a retryer that slows down when a service throttles, and soon gives up.
func newRetryer() aws.Retryer {
	return retry.NewAdaptiveMode(func(o *retry.AdaptiveModeOptions) {
		o.StandardOptions = append(o.StandardOptions, func(s *retry.StandardOptions) {
			s.MaxAttempts, s.MaxBackoff = triesMax, backoffMax
		})
	})
}

func findCredentials(ctx context.Context, c clock.Clock, provider aws.CredentialsProvider) error {
	within, cancel := clock.Within(ctx, c, credentialsMax)
	defer cancel()
	if _, err := provider.Retrieve(within); err != nil {
		return &Error{
			Kind: ErrCredentials, Err: err,
			Text: "no AWS credentials are found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, or run where the machine or " +
				"container has a role (" + lastCause(err) + ")",
		}
	}
	return nil
}

// transportOf returns the transport that the SDK chose, which also trusts the certificates of AWS_CA_BUNDLE.
func transportOf(chosen aws.HTTPClient) *http.Transport {
	if client, ok := chosen.(*awshttp.BuildableClient); ok {
		return client.GetTransport()
	}
	return awshttp.NewBuildableClient().GetTransport()
}

func (c *Clients) httpClient(base *http.Transport, answer time.Duration) *http.Client {
	t := base.Clone()
	t.DialContext = (&net.Dialer{Timeout: dialMax, KeepAlive: keepAliveEvery}).DialContext
	t.TLSHandshakeTimeout = handshakeMax
	t.ResponseHeaderTimeout = answer
	t.IdleConnTimeout = idleMax
	t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = connectionsMax, connectionsMax, 0
	c.transports = append(c.transports, t)
	return &http.Client{
		Transport: c.clock.watch(t),
		// A redirect would repeat a signed request elsewhere.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// isAmazon reports whether requests go to an endpoint of Amazon: that of the region, or a configured one.
func isAmazon(endpoint *string) bool {
	if endpoint == nil {
		return true
	}
	host := strings.TrimPrefix(strings.TrimPrefix(*endpoint, "https://"), "http://")
	host, _, _ = strings.Cut(host, "/")
	host, _, _ = strings.Cut(host, ":")
	return strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".amazonaws.com.cn") || strings.HasSuffix(host, ".api.aws")
}

// Endpoints returns a text that says where requests go.
func (c *Clients) Endpoints() string {
	return fmt.Sprintf("DynamoDB at %s, SQS at %s", endpointText(c.DynamoDB.Options().BaseEndpoint, c.Region), endpointText(c.SQS.Options().BaseEndpoint, c.Region))
}

func endpointText(base *string, region string) string {
	if base == nil {
		return region
	}
	return *base
}

// SkewMax is how far this machine's clock may differ from that of AWS. Signatures tolerate five minutes, but
// several processes judge the lease of a worker by their own clocks: a worker stops a quarter of its lease
// before the others take it for lost, which is 3.75 s by default.
const SkewMax = 2 * time.Second

// dateResolution is the precision of the Date header: whole seconds, and servers may cache it for a second.
const dateResolution = 2 * time.Second

// serverClock compares our clock with the Date of answers, which gives bounds of the difference.
type serverClock struct {
	clock clock.Clock

	mu    sync.Mutex
	ahead time.Duration // ours is ahead by at least this; negative: behind by at least that
}

// watch returns a transport that notes the Date of each answer of next.
func (s *serverClock) watch(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		began := s.clock.Now()
		response, err := next.RoundTrip(r)
		if err == nil {
			s.note(began, s.clock.Now(), response.Header.Get("Date"))
		}
		return response, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip calls f.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// note takes the Date of an answer that the server gave between two readings of our clock.
func (s *serverClock) note(began, ended task.Instant, date string) {
	at, err := http.ParseTime(date)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead = clock.Ahead(began, ended, task.InstantOf(at), dateResolution)
}

// CheckClock returns ErrClock if this machine's clock is too far off, by the newest answer of AWS.
func (c *Clients) CheckClock() error {
	c.clock.mu.Lock()
	defer c.clock.mu.Unlock()
	if c.clock.ahead.Abs() <= SkewMax {
		return nil
	}
	return clockError(c.clock.ahead, nil)
}

func clockError(ahead time.Duration, cause error) *Error {
	direction := "ahead of"
	if ahead < 0 {
		direction = "behind"
	}
	return &Error{Kind: ErrClock, Err: cause, Text: fmt.Sprintf(
		"this machine's clock is at least %v %s that of AWS, and may be off by %v: signatures and the leases of workers depend on it; "+
			"synchronise it (chrony, systemd-timesyncd)", ahead.Abs().Round(time.Second), direction, SkewMax)}
}

// Package awsclient makes the clients of AWS that this program uses, and says in one sentence what is wrong
// when one of them fails. Region, credentials and endpoints come from where the AWS SDK looks for them: the
// environment (AWS_REGION, AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL_DYNAMODB, AWS_ENDPOINT_URL_SQS …), the shared
// configuration files, and the machine or container it runs on. It owns timeouts, the pool of connections
// and how often the SDK tries again; it knows no table and no queue.
package awsclient

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// Bounds of every request, in addition to those of the caller.
const (
	// dialMax and handshakeMax bound the opening of a connection.
	dialMax      = 2 * time.Second
	handshakeMax = 3 * time.Second
	// answerMax is how long DynamoDB may take to begin its answer, pollAnswerMax how long SQS may, where a
	// receive waits up to 20 s.
	answerMax     = 5 * time.Second
	pollAnswerMax = 25 * time.Second
	// idleMax is how long an unused connection is kept; the services close theirs a little later.
	idleMax        = 50 * time.Second
	keepAliveEvery = 30 * time.Second
	// connectionsMax is how many unused connections to one service are kept: more requests than these at once
	// open new ones, which costs a handshake each.
	connectionsMax = 256
	// triesMax and backoffMax bound how the SDK tries again by itself. Drivers that know better turn it off.
	triesMax   = 3
	backoffMax = 300 * time.Millisecond
	// credentialsMax bounds the search for credentials, which ends at a service of the machine that may not
	// be there.
	credentialsMax = 6 * time.Second
)

// Clients are what this program calls AWS by. They are safe for concurrent use.
type Clients struct {
	DynamoDB *dynamodb.Client
	SQS      *sqs.Client
	Region   string

	clock      *serverClock
	transports []*http.Transport
}

// New makes clients by what the environment and the files say, and looks for credentials. It
// asks nothing of AWS itself. Its errors are those of Explain.
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
	if err := checkEndpoint("DynamoDB", made.DynamoDB.Options().BaseEndpoint); err != nil {
		return nil, err
	}
	if err := checkEndpoint("SQS", made.SQS.Options().BaseEndpoint); err != nil {
		return nil, err
	}
	return made, nil
}

// checkEndpoint refuses what was named as an endpoint and cannot be one.
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

// Close closes the connections that nobody uses.
func (c *Clients) Close() {
	for _, t := range c.transports {
		t.CloseIdleConnections()
	}
}

// newRetryer slows down when a service throttles, and gives up soon.
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

// transportOf is the transport that the SDK chose, which trusts also what AWS_CA_BUNDLE names.
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

// isAmazon reports whether requests go to Amazon's own endpoint: that of the region, or one that was named.
func isAmazon(endpoint *string) bool {
	if endpoint == nil {
		return true
	}
	host := strings.TrimPrefix(strings.TrimPrefix(*endpoint, "https://"), "http://")
	host, _, _ = strings.Cut(host, "/")
	host, _, _ = strings.Cut(host, ":")
	return strings.HasSuffix(host, ".amazonaws.com") || strings.HasSuffix(host, ".amazonaws.com.cn") || strings.HasSuffix(host, ".api.aws")
}

// Endpoints says where requests go, for people.
func (c *Clients) Endpoints() string {
	return fmt.Sprintf("DynamoDB at %s, SQS at %s", endpointText(c.DynamoDB.Options().BaseEndpoint, c.Region), endpointText(c.SQS.Options().BaseEndpoint, c.Region))
}

func endpointText(base *string, region string) string {
	if base == nil {
		return region
	}
	return *base
}

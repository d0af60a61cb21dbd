package sdk

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/internal/dial"
)

// CallTimeoutDefault bounds one try of a call.
const CallTimeoutDefault = 10 * time.Second

// Client schedules tasks and asks about them. It is safe for concurrent use; one
// per process is enough. Close it to close its connections.
type Client struct {
	backend Backend
	cfg     clientConfig
	budget  *budget
	close   func()
}

// Backend carries the calls of a Client: over the network (NewClient), or straight
// into a server in the same process (NewClientOver).
type Backend struct {
	Tasks   kinesinv1connect.TaskServiceClient
	Lambdas kinesinv1connect.LambdaServiceClient
	Inbound kinesinv1connect.InboundServiceClient
	Workers controller.Backend
}

type clientConfig struct {
	http        *http.Client
	tokenFile   string
	caFile      string
	log         *slog.Logger
	clock       clock.Clock
	callTimeout time.Duration
	triesMax    int
	controllers func(context.Context, *controller.Config)
}

// ClientOption changes how a client makes its calls.
type ClientOption func(*clientConfig)

// WithHTTPClient uses one's own HTTP client for everything, for TLS settings or
// proxies. Its transport must speak HTTP/2 to the server if workers are to run.
func WithHTTPClient(h *http.Client) ClientOption { return func(c *clientConfig) { c.http = h } }

// WithTokenFile sends, with each call, the first token that is in a file, for a server that needs one
// (kinesin serve --auth-token-file). The file is read again when it changes. Without TLS whoever can listen
// on the way sees the token.
func WithTokenFile(path string) ClientOption { return func(c *clientConfig) { c.tokenFile = path } }

// WithCAFile trusts the certificates in a file, in PEM, to sign that of an https server, instead of those
// that this machine trusts. It is read once. It does not go with WithHTTPClient.
func WithCAFile(path string) ClientOption { return func(c *clientConfig) { c.caFile = path } }

// WithLogger sets where workers of this client log; slog.Default otherwise.
func WithLogger(l *slog.Logger) ClientOption { return func(c *clientConfig) { c.log = l } }

// WithCallTimeout bounds one try of a call; CallTimeoutDefault otherwise. The
// context of a call bounds all its tries together.
func WithCallTimeout(d time.Duration) ClientOption {
	return func(c *clientConfig) { c.callTimeout = d }
}

// WithTries sets how often a call is tried when no server answers, the first
// time included; TriesDefault otherwise, 1 for no retries.
func WithTries(n int) ClientOption { return func(c *clientConfig) { c.triesMax = n } }

// WithClock sets the source of time and chance; it is for tests inside this module.
func WithClock(k clock.Clock) ClientOption { return func(c *clientConfig) { c.clock = k } }

// WithControllers lets change change what each worker of this client is about to run with, Run's context in
// hand; it is for tests inside this module.
func WithControllers(change func(ctx context.Context, c *controller.Config)) ClientOption {
	return func(c *clientConfig) { c.controllers = change }
}

// NewClient returns a client of the server at a URL such as "http://127.0.0.1:7070". It makes no connection
// before the first call. It refuses a URL that is not http or https, and files that cannot be used, with
// ErrInvalid.
func NewClient(server string, opts ...ClientOption) (*Client, error) {
	base, err := baseURL(server)
	if err != nil {
		return nil, err
	}
	cfg := configOf(opts)
	h, err := cfg.dial(base)
	if err != nil {
		return nil, fmt.Errorf("%w client: %w", ErrInvalid, err)
	}
	c := NewClientOver(Backend{
		Tasks:   newWireTasks(h, base),
		Lambdas: kinesinv1connect.NewLambdaServiceClient(h.Calls, base, api.ClientOptions()...),
		Inbound: kinesinv1connect.NewInboundServiceClient(h.Calls, base, api.ClientOptions()...),
		Workers: newWireBackend(h, base, cfg),
	}, opts...)
	c.close = h.CloseIdle
	return c, nil
}

// NewClientOver returns a client that makes its calls through a backend.
func NewClientOver(b Backend, opts ...ClientOption) *Client {
	return &Client{backend: b, cfg: configOf(opts), budget: newBudget(), close: func() {}}
}

// Close closes idle connections. Calls in flight go on.
func (c *Client) Close() { c.close() }

func configOf(opts []ClientOption) clientConfig {
	var c clientConfig
	for _, o := range opts {
		o(&c)
	}
	c.log = cmp.Or(c.log, slog.Default())
	if c.clock == nil {
		c.clock = clock.Real()
	}
	c.callTimeout = cmp.Or(max(c.callTimeout, 0), CallTimeoutDefault)
	c.triesMax = cmp.Or(max(c.triesMax, 0), TriesDefault)
	return c
}

func (c *clientConfig) dial(base string) (dial.Clients, error) {
	return dial.New(dial.Config{
		Server: base, TokenFile: c.tokenFile, CAFile: c.caFile, HTTP: c.http, Clock: c.clock,
		TokenChanged: func(err error) {
			if err != nil {
				c.log.WarnContext(context.Background(), "the changed file of the token cannot be used, the token before is sent", slog.Any("error", err))
			}
		},
	})
}

func baseURL(server string) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%w server %q: want a URL such as http://127.0.0.1:7070 or https://kinesin.example.org", ErrInvalid, server)
	}
	return strings.TrimRight(server, "/"), nil
}

// call makes one call with the client's timeout and retries.
func call[Req, Res any](ctx context.Context, c *Client, what string, f func(context.Context, *Req) (*Res, error), request *Req) (*Res, error) {
	var response *Res
	err := c.retry(ctx, what, func(ctx context.Context) error {
		var err error
		response, err = once(ctx, c.cfg.clock, c.cfg.callTimeout, f, request)
		return err
	})
	return response, err
}

// once makes one try of a call. That this try took too long is not the end of the
// caller's context: it may be tried again.
func once[Req, Res any](ctx context.Context, k clock.Clock, timeout time.Duration, f func(context.Context, *Req) (*Res, error), request *Req) (*Res, error) {
	tryCtx, cancel := clock.Within(ctx, k, timeout)
	defer cancel()
	response, err := f(tryCtx, request)
	if err == nil {
		return response, nil
	}
	if tryCtx.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("%w: no answer within %v", ErrUnavailable, timeout)
	}
	return nil, api.FromWire(err)
}

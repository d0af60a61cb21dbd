package sdk

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/internal/dial"
	"github.com/kinesin-io/kinesin/internal/livefile"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
)

// Defaults of the options.
const (
	CallTimeoutDefault = 10 * time.Second // of one try of a call
	TriesDefault       = 9                // of a call; with the pauses between them they span a restart of the server
	SlotsDefault       = 100              // of a worker
)

// Client schedules tasks and reads them. It is safe for concurrent use; one per process is enough. Close it
// to close its connections.
type Client struct {
	backend backend
	cfg     clientConfig
	budget  *budget
	close   func()
}

// backend carries the calls of a Client.
type backend struct {
	tasks      kinesinv1connect.TaskServiceClient
	lambdas    kinesinv1connect.LambdaServiceClient
	jobs       kinesinv1connect.JobServiceClient
	dead       kinesinv1connect.DeadLetterServiceClient
	gates      kinesinv1connect.GateServiceClient
	crons      kinesinv1connect.CronServiceClient
	chains     kinesinv1connect.ChainServiceClient
	groups     kinesinv1connect.GroupServiceClient
	quotas     kinesinv1connect.QuotaServiceClient
	objectives kinesinv1connect.ObjectiveServiceClient
	inbound    kinesinv1connect.InboundServiceClient
	keyring    kinesinv1connect.KeyringServiceClient
	workers    controller.Backend
}

type clientConfig = sdkconfig.Client

// ClientOption changes how a client makes its calls.
type ClientOption func(*clientConfig)

// WithHTTPClient makes all calls with h, for TLS settings or proxies. Its transport must speak HTTP/2 to the
// server if workers are to run.
func WithHTTPClient(h *http.Client) ClientOption { return func(c *clientConfig) { c.HTTP = h } }

// WithTokenFile sends the first token in a file with each call, for a server that wants one (kinesin serve
// --auth-token-file). The file is read again when it changes. Without TLS, anyone on the network path can
// read the token.
func WithTokenFile(path string) ClientOption { return func(c *clientConfig) { c.TokenFile = path } }

// WithCAFile trusts the certificates in a PEM file to sign the certificate of an https server, instead of the
// certificates that this machine trusts. The file is read once. It excludes WithHTTPClient.
func WithCAFile(path string) ClientOption { return func(c *clientConfig) { c.CAFile = path } }

// WithClientCertificate shows an https server a certificate, for an identity that its policy names by
// certificate (docs/security.md). The files hold the certificate and its key in PEM, and are read again when
// they change. It excludes WithHTTPClient.
func WithClientCertificate(certFile, keyFile string) ClientOption {
	return func(c *clientConfig) { c.CertFile, c.KeyFile = certFile, keyFile }
}

// WithLogger sets where workers of this client log. The default is slog.Default.
func WithLogger(l *slog.Logger) ClientOption { return func(c *clientConfig) { c.Log = l } }

// WithCallTimeout bounds one try of a call; the default is CallTimeoutDefault. The context of a call bounds
// all its tries together.
func WithCallTimeout(d time.Duration) ClientOption {
	return func(c *clientConfig) { c.CallTimeout = d }
}

// WithTries sets how often a call is tried when no server answers, including the first time; the default is
// TriesDefault, and 1 means no retries.
func WithTries(n int) ClientOption { return func(c *clientConfig) { c.TriesMax = n } }

// NewClient returns a client of the server at a URL such as "http://127.0.0.1:7070", or at HOST:PORT. With
// commas between them these are several addresses of servers over one store, 16 at most, and a name may have
// several addresses too: the client and its workers use one server, and go to the next one when that fails. A
// call that a server may have got is repeated only where that is harmless. It connects at the first call. It
// returns ErrInvalid for a URL that is not http or https, and for files that cannot be used.
func NewClient(server string, opts ...ClientOption) (*Client, error) {
	if _, err := dial.Servers(server); err != nil {
		return nil, fmt.Errorf("%w %w", ErrInvalid, err)
	}
	var set clientConfig
	for _, o := range opts {
		o(&set)
	}
	cfg := set.WithDefaults(CallTimeoutDefault, TriesDefault)
	h, err := connections(&cfg, server)
	if err != nil {
		return nil, fmt.Errorf("%w client: %w", ErrInvalid, err)
	}
	h.Calls = withTraces(h.Calls)
	if cfg.TokenFile != "" && livefile.IsLoose(cfg.TokenFile) {
		cfg.Log.WarnContext(context.Background(), "every user of this machine may use the token file; chmod 600 it", slog.String("file", cfg.TokenFile))
	}
	return &Client{
		backend: backend{
			tasks:      newWireTasks(h),
			jobs:       kinesinv1connect.NewJobServiceClient(h.Calls, h.Base, api.ClientOptions()...),
			gates:      kinesinv1connect.NewGateServiceClient(h.Calls, h.Base, api.ClientOptions()...),
			crons:      kinesinv1connect.NewCronServiceClient(h.Calls, h.Base, api.ClientOptions()...),
			chains:     kinesinv1connect.NewChainServiceClient(h.Calls, h.Base, api.ClientOptions()...),
			groups:     kinesinv1connect.NewGroupServiceClient(h.Calls, h.Base, api.ClientOptions()...),
			quotas:     kinesinv1connect.NewQuotaServiceClient(h.Calls, h.Base, api.ClientOptions()...),
			objectives: kinesinv1connect.NewObjectiveServiceClient(h.Calls, h.Base, api.ClientOptions()...),
			lambdas:    kinesinv1connect.NewLambdaServiceClient(h.Calls, h.Base, api.ClientOptions()...),
			dead:       kinesinv1connect.NewDeadLetterServiceClient(h.Calls, h.Base, api.ClientOptions()...),
			inbound:    kinesinv1connect.NewInboundServiceClient(h.Calls, h.Base, api.ClientOptions()...),
			keyring:    kinesinv1connect.NewKeyringServiceClient(h.Calls, h.Base, api.ClientOptions()...),
			workers:    newWireWorkers(h, &cfg),
		},
		cfg: cfg, budget: newBudget(), close: h.CloseIdle,
	}, nil
}

// Close closes idle connections. Calls in flight go on.
func (c *Client) Close() { c.close() }

func connections(cfg *clientConfig, server string) (dial.Clients, error) {
	return dial.New(dial.Config{
		Server: server, TokenFile: cfg.TokenFile, CAFile: cfg.CAFile, CertFile: cfg.CertFile, KeyFile: cfg.KeyFile, HTTP: cfg.HTTP, Clock: cfg.Clock,
		TokenChanged: func(err error) {
			if err != nil {
				cfg.Log.WarnContext(context.Background(), "reload of the token file failed; keeping the previous token", slog.Any("error", err))
			}
		},
	})
}

// call makes one call with the client's timeout and retries.
func call[Req, Res any](ctx context.Context, c *Client, what string, f func(context.Context, *Req) (*Res, error), request *Req) (*Res, error) {
	var response *Res
	err := c.retry(ctx, what, func(ctx context.Context) error {
		var err error
		response, err = once(ctx, c.cfg.Clock, c.cfg.CallTimeout, f, request)
		return err
	})
	return response, err
}

// listOf returns the elements of an answer as the SDK has them.
func listOf[W, T any](wire []W, of func(W) T) []T {
	all := make([]T, len(wire))
	for i := range wire {
		all[i] = of(wire[i])
	}
	return all
}

// once makes one try of a call. When the try takes too long but ctx has not ended, the error is
// ErrUnavailable, so that the call is tried again.
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

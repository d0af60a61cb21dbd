package sdk

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
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
	http    dial.Clients
}

// backend carries the calls of a Client.
type backend struct {
	tasks   kinesinv1connect.TaskServiceClient
	chains  kinesinv1connect.ChainServiceClient
	groups  kinesinv1connect.GroupServiceClient
	workers controller.Backend
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
// certificate (docs/how-to/access.md). The files hold the certificate and its key in PEM, and are read again when
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
			tasks:   newWireTasks(h),
			chains:  kinesinv1connect.NewChainServiceClient(h.Calls, h.Base, api.ClientOptions()...),
			groups:  kinesinv1connect.NewGroupServiceClient(h.Calls, h.Base, api.ClientOptions()...),
			workers: newWireWorkers(h, &cfg),
		},
		cfg: cfg, budget: newBudget(), http: h,
	}, nil
}

func init() { //nolint:gochecknoinits // package sdk/admin makes its calls as a Client does, without a method that users see
	sdkconfig.ItemOf = func(w *kinesinv1.ScheduleItem) (any, error) { return itemOf(w) }
	sdkconfig.WireOf = func(item any) *kinesinv1.ScheduleItem {
		i, _ := item.(*Item)
		return i.wire(nil)
	}
	sdkconfig.CallsOf = func(client any) sdkconfig.Calls {
		c, _ := client.(*Client)
		return sdkconfig.Calls{
			Services: sdkconfig.ServicesOf(c.http.Calls, c.http.Base), Config: c.cfg,
			Do: func(ctx context.Context, what string, timeout time.Duration, try func(context.Context) error) error {
				_, err := callWithin(ctx, c, what, max(timeout, c.cfg.CallTimeout), func(ctx context.Context, _ *struct{}) (*struct{}, error) { return nil, try(ctx) }, nil)
				return err
			},
			RequestID: func() []byte { return requestIDs(c.cfg.Clock, 1)[0] },
			TaskInfo:  func(w *kinesinv1.Task) any { return taskInfoOf(w) },
			AddMembers: func(ctx context.Context, group string, at int, items any, added func(*kinesinv1.AddMembersResponse)) error {
				all, _ := items.([]Item)
				return c.addMembers(ctx, group, at, all, added)
			},
			Task: func(result any) *kinesinv1.Task {
				r, _ := result.(*GetResult)
				if r.wire == nil {
					return &kinesinv1.Task{}
				}
				r.wire.Payload, r.wire.Result = r.Task.Payload, r.Task.Result
				return r.wire
			},
			Decode: func(ctx context.Context, lambda, key, id string, payload []byte) ([]byte, error) {
				return c.decodeRead(ctx, lambda, key, ID(id), payload)
			},
		}
	}
}

// Close closes idle connections. Calls in flight go on.
func (c *Client) Close() { c.http.CloseIdle() }

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
	return callWithin(ctx, c, what, c.cfg.CallTimeout, f, request)
}

// callWithin is call with another timeout of one try.
func callWithin[Req, Res any](ctx context.Context, c *Client, what string, timeout time.Duration, f func(context.Context, *Req) (*Res, error), request *Req) (response *Res, err error) {
	err = c.retry(ctx, what, func(ctx context.Context) (err error) {
		response, err = once(ctx, c.cfg.Clock, timeout, f, request)
		return err
	})
	return response, err
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

// w3c is how trace contexts go to servers and to handlers, whatever propagator the program has for others.
var w3c propagation.TraceContext

// withTraces returns a client that sends the span of a call's context with it, as the headers traceparent and
// tracestate. So one trace goes from the caller to the handler. Without a span it does nothing.
func withTraces(c *http.Client) *http.Client {
	with := *c
	with.Transport = traced{c}
	return &with
}

// traced is the transport of a client, with the headers of traces.
type traced struct{ of *http.Client }

// RoundTrip implements http.RoundTripper.
func (t traced) RoundTrip(r *http.Request) (*http.Response, error) {
	if trace.SpanContextFromContext(r.Context()).IsValid() {
		r = r.Clone(r.Context())
		w3c.Inject(r.Context(), propagation.HeaderCarrier(r.Header))
	}
	if t.of.Transport == nil {
		return http.DefaultTransport.RoundTrip(r)
	}
	return t.of.Transport.RoundTrip(r)
}

// CloseIdleConnections lets a client close those of its transport.
func (t traced) CloseIdleConnections() { t.of.CloseIdleConnections() }

// below returns a context for the handler of a task, in which spans begin below that of its attempt.
func below(ctx context.Context, traceparent string) context.Context {
	if traceparent == "" {
		return ctx
	}
	return w3c.Extract(ctx, propagation.MapCarrier{"traceparent": traceparent})
}

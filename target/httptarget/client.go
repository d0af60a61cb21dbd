package httptarget

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/sdk"
)

// Bounds of the connections of a Client.
const (
	connectMax             = 10 * time.Second // to connect, and to agree on TLS, each
	idleConnsMax           = 2000
	idleConnsPerHostMax    = 1000
	idleMax                = 30 * time.Second
	answerHeaderBytesMax   = 64 << 10
	pingAfter, pingTimeout = 15 * time.Second, 15 * time.Second // a connection of HTTP/2 on which nothing comes
)

// Config configures a Client.
type Config struct {
	Guard   *Guard      // nil: any address may be called
	Clock   clock.Clock // required
	Version string      // of this program, in User-Agent; empty: none
	// Callback returns the token with which the receiver may report later how an attempt ended, after an answer
	// of 202, and a channel with that outcome; done is called at the end. An empty token: it may not. nil: no
	// receiver may, and 202 is a success.
	Callback func(ctx context.Context, t *sdk.Task[[]byte]) (token string, ended <-chan controller.Outcome, done func(), err error)
	// Called is called after each call, with the class of its answer: "2xx" to "5xx", or "none". nil: it is not.
	Called func(lambda, class string)
}

// Client has what the runners of a process share: the connections, and how many calls each host gets at a
// time. It is safe for concurrent use.
type Client struct {
	clock     clock.Clock
	userAgent string
	called    func(lambda, class string)
	callback  func(ctx context.Context, t *sdk.Task[[]byte]) (token string, ended <-chan controller.Outcome, done func(), err error)
	http      *http.Client
	windows   *windows
}

// NewClient returns a client. Close it to close its connections.
func NewClient(c Config) *Client {
	dialer := &net.Dialer{Timeout: connectMax}
	if c.Guard != nil {
		dialer.Control = c.Guard.control
	}
	if c.Called == nil {
		c.Called = func(string, string) {}
	}
	if c.Callback == nil {
		c.Callback = func(context.Context, *sdk.Task[[]byte]) (string, <-chan controller.Outcome, func(), error) {
			return "", nil, func() {}, nil
		}
	}
	agent := "kinesin"
	if c.Version != "" {
		agent += "/" + c.Version
	}
	return &Client{
		clock: c.Clock, userAgent: agent, called: c.Called, callback: c.Callback, windows: newWindows(),
		http: &http.Client{
			// A redirect would take the call, with its headers, to where its settings do not name.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
			// No proxy: its address would be what the guard sees. No compression: the result is what was sent.
			Transport: &http.Transport{
				DialContext: dialer.DialContext, ForceAttemptHTTP2: true, DisableCompression: true, TLSHandshakeTimeout: connectMax,
				MaxIdleConns: idleConnsMax, MaxIdleConnsPerHost: idleConnsPerHostMax, IdleConnTimeout: idleMax, MaxResponseHeaderBytes: answerHeaderBytesMax,
				HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
			},
		},
	}
}

// Close closes idle connections. Calls in flight go on.
func (c *Client) Close() { c.http.CloseIdleConnections() }

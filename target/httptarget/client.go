package httptarget

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"strings"
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
	// Identities are as whom hosts are called, as ReadIdentities returns them. Other hosts are called as nobody.
	Identities []Identity
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
	http      *http.Client // for hosts without an identity
	known     map[string]known
	windows   *windows
}

// known is a host with an identity.
type known struct {
	*Identity

	http *http.Client
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
	client := &Client{
		clock: c.Clock, userAgent: agent, called: c.Called, callback: c.Callback, windows: newWindows(), http: newHTTP(dialer, nil), known: map[string]known{},
	}
	for i := range c.Identities {
		id := &c.Identities[i]
		client.known[id.Host] = known{id, newHTTP(dialer, id.secure)}
	}
	return client
}

func newHTTP(dialer *net.Dialer, secure *tls.Config) *http.Client {
	return &http.Client{
		// A redirect would take the call, with its headers, to where its settings do not name.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		// No proxy: its address would be what the guard sees. No compression: the result is what was sent.
		Transport: &http.Transport{
			DialContext: dialer.DialContext, ForceAttemptHTTP2: true, DisableCompression: true, TLSHandshakeTimeout: connectMax, TLSClientConfig: secure,
			MaxIdleConns: idleConnsMax, MaxIdleConnsPerHost: idleConnsPerHostMax, IdleConnTimeout: idleMax, MaxResponseHeaderBytes: answerHeaderBytesMax,
			HTTP2: &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		},
	}
}

// identified returns the client for a request, which it gives what shows who calls, if the host is to know that.
func (c *Client) identified(r *http.Request) (*http.Client, error) {
	k, is := c.known[strings.ToLower(r.URL.Host)]
	if !is {
		return c.http, nil
	}
	return k.http, k.identify(r)
}

// Close closes idle connections. Calls in flight go on.
func (c *Client) Close() {
	c.http.CloseIdleConnections()
	for _, k := range c.known {
		k.http.CloseIdleConnections()
	}
}

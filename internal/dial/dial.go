// Package dial creates the HTTP clients with which a program calls a server of Kinesin, or one of several:
// with the server's token, with the trusted certificates, and with errors that say what to change if a retry
// cannot help. It chooses the server that gets a call. It makes no call itself, and repeats none that a
// server may have got.
package dial

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/livefile"
	"github.com/kinesin-io/kinesin/internal/token"
)

// ErrConfig is returned for an invalid configuration; the text says what is allowed.
var ErrConfig = errors.New("cannot call a server")

// caFileBytesMax bounds a file of certificates.
const caFileBytesMax = 1 << 20

// Config configures the clients. Server and Clock are required.
type Config struct {
	Server string // the addresses of the servers; see Servers
	// TokenFile holds the token of each call: the first in the file, which is reloaded when it changes.
	TokenFile string
	// CAFile holds the trusted certificate authorities, in PEM, instead of those of this machine.
	CAFile string
	// CertFile and KeyFile hold the certificate that shows an https server who calls, and its key, in PEM.
	// They are read again when they change.
	CertFile, KeyFile string
	HTTP              *http.Client // used for all calls if set
	Clock             clock.Clock
	// TokenChanged is called with nil after a reload of the token, and with the error of a failed one. It may
	// be nil.
	TokenChanged func(error)
}

// Clients are separate clients for calls that must not wait for each other.
type Clients struct {
	Base    string // the URL to make requests with; they go to the server in use
	Servers int    // how many addresses there are

	Calls   *http.Client // short calls, over HTTP/1.1 with bounded connections
	Beats   *http.Client // heartbeats of workers
	Streams *http.Client // streams and other long calls, many per connection
}

// New returns clients without a connection. Its errors are ErrConfig.
func New(c Config) (Clients, error) {
	several, err := newServers(c.Server)
	if err != nil {
		return Clients{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	d := transport{servers: several}
	if c.TokenFile != "" {
		if d.token, err = token.OpenFirst(c.TokenFile, c.Clock, c.TokenChanged); err != nil {
			return Clients{}, fmt.Errorf("%w: token: %w", ErrConfig, err)
		}
	}
	if c.HTTP != nil {
		if c.CAFile != "" || c.CertFile != "" {
			return Clients{}, fmt.Errorf("%w: both a file of certificates and an HTTP client are set: give the client the certificates", ErrConfig)
		}
		own := *c.HTTP
		own.Transport = d.before(own.Transport)
		return d.clients(&own, &own, &own), nil
	}
	trust, err := clientTLS(&c)
	if err != nil {
		return Clients{}, err
	}
	connections := newDialer(several)
	client := func(t *http.Transport) *http.Client {
		t.TLSClientConfig = trust.Clone()
		t.DialContext = connections.DialContext
		return &http.Client{Transport: d.before(t)}
	}
	return d.clients(client(api.NewCallTransport()), client(api.NewCallTransport()), client(api.NewStreamTransport())), nil
}

// CloseIdle closes idle connections.
func (c *Clients) CloseIdle() {
	c.Calls.CloseIdleConnections()
	c.Beats.CloseIdleConnections()
	c.Streams.CloseIdleConnections()
}

// clientTLS returns the TLS configuration of a client; nil means that of this machine, without a certificate.
func clientTLS(c *Config) (*tls.Config, error) {
	config, err := readTrust(c.CAFile)
	switch {
	case err != nil:
		return nil, err
	case (c.CertFile == "") != (c.KeyFile == ""):
		return nil, fmt.Errorf("%w: a client certificate needs its file and that of its key", ErrConfig)
	case c.CertFile == "":
		return config, nil
	}
	pair, err := livefile.OpenPair(c.CertFile, c.KeyFile, c.Clock, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: client certificate: %w", ErrConfig, err)
	}
	if config == nil {
		config = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair.Get(), nil }
	return config, nil
}

// readTrust reads the trusted certificates; nil for no file means those of this machine.
func readTrust(path string) (*tls.Config, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // the default of a transport
	}
	content, err := livefile.Read(path, caFileBytesMax)
	if err != nil {
		return nil, fmt.Errorf("%w: trusted certificates: %w", ErrConfig, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content) {
		return nil, fmt.Errorf("%w: trusted certificates: %s holds none in PEM (-----BEGIN CERTIFICATE-----)", ErrConfig, path)
	}
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, nil
}

// transport is the http.RoundTripper of the clients.
type transport struct {
	servers *servers
	token   *livefile.Files[string] // nil: none
	next    http.RoundTripper
}

func (d transport) clients(calls, beats, streams *http.Client) Clients {
	return Clients{Base: d.servers.base().String(), Servers: len(d.servers.urls), Calls: calls, Beats: beats, Streams: streams}
}

// before returns the transport of a client: failover chooses a server, and what follows is about that one.
func (d transport) before(next http.RoundTripper) http.RoundTripper {
	d.next = next
	if next == nil {
		d.next = http.DefaultTransport
	}
	return failover{servers: d.servers, next: d}
}

// RoundTrip adds the token, except to a redirect to another server, and explains errors.
func (d transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.token != nil && d.servers.has(r) {
		r = r.WithContext(r.Context()) // a copy: the caller's request must not change
		r.Header = r.Header.Clone()
		token.Put(r.Header, d.token.Get())
	}
	response, err := d.next.RoundTrip(r)
	if err != nil {
		return response, explain(r, err)
	}
	if saysTLS(response) {
		return nil, errors.Join(invalid(r, "it speaks TLS: want https:// instead of http://"), response.Body.Close())
	}
	return response, nil
}

// CloseIdleConnections is called by http.Client.
func (d transport) CloseIdleConnections() {
	if c, ok := d.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// explain returns an *api.Error for an error that no retry can fix.
func explain(r *http.Request, err error) error {
	if refused, found := errors.AsType[*tls.CertificateVerificationError](err); found {
		return invalid(r, "its certificate is not trusted (%v); name a file with the certificate that signed it "+
			"(kinesin: --tls-ca-file or KINESIN_TLS_CA_FILE, Go: sdk.WithCAFile), and use the host name that it was issued for", refused.Err)
	}
	if errors.Is(err, http.ErrSchemeMismatch) || strings.Contains(err.Error(), "first record does not look like a TLS handshake") {
		return invalid(r, "it speaks no TLS: want http:// instead of https://")
	}
	return err
}

// tlsWanted is the answer of package net/http to plain HTTP on a TLS port.
const tlsWanted = "Client sent an HTTP request to an HTTPS server."

// saysTLS reports whether the answer is tlsWanted. It never reads an answer of Kinesin, which always has a
// type.
func saysTLS(r *http.Response) bool {
	if r.StatusCode != http.StatusBadRequest || r.Header.Get("Content-Type") != "" {
		return false
	}
	start, _ := io.ReadAll(io.LimitReader(r.Body, int64(len(tlsWanted))))
	if string(start) == tlsWanted {
		return true
	}
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(strings.NewReader(string(start)), r.Body), r.Body}
	return false
}

// invalid returns the error for a server that is named wrongly.
func invalid(r *http.Request, format string, args ...any) error {
	where := r.URL.Scheme + "://" + r.URL.Host
	return api.Errorf(kinesinv1.Reason_REASON_INVALID, "invalid server %s: %s", where, fmt.Sprintf(format, args...))
}

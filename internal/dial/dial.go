// Package dial makes the HTTP clients with which a program calls a server of Kinesin: with the server's
// token, with the certificates that it trusts, and with errors that say what to change where trying again
// cannot help. It makes no call itself.
package dial

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/livefile"
	"github.com/kinesin-io/kinesin/internal/token"
)

// ErrConfig refuses a configuration; the text says what is allowed.
var ErrConfig = errors.New("cannot call a server")

// caFileBytesMax bounds a file of certificates.
const caFileBytesMax = 1 << 20

// Config says what to call, and how. The zero value of all but Server and Clock means none.
type Config struct {
	Server string // base URL
	// TokenFile holds the token that each call carries; its first one, read again when the file changes.
	TokenFile string
	// CAFile holds the certificates, in PEM, that are trusted to sign the server's, instead of those of this
	// machine.
	CAFile string
	HTTP   *http.Client // used for everything instead of own ones
	Clock  clock.Clock
	// TokenChanged is told of a new token (nil), and why a change is not taken; nil: nobody is.
	TokenChanged func(error)
}

// Clients keep apart what must not wait for each other.
type Clients struct {
	Calls   *http.Client // short: faster over HTTP/1.1, with a bound on connections
	Beats   *http.Client // of workers: never behind calls that wait for a connection
	Streams *http.Client // and whatever else takes long, many on one connection
}

// New returns clients, which have made no connection yet. What is wrong with the configuration is ErrConfig.
func New(c Config) (Clients, error) {
	base, err := url.Parse(c.Server)
	if err != nil {
		return Clients{}, fmt.Errorf("%w %q: %w", ErrConfig, c.Server, err)
	}
	d := door{base: base}
	if c.TokenFile != "" {
		if d.token, err = token.OpenFirst(c.TokenFile, c.Clock, c.TokenChanged); err != nil {
			return Clients{}, fmt.Errorf("%w: token: %w", ErrConfig, err)
		}
	}
	if c.HTTP != nil {
		if c.CAFile != "" {
			return Clients{}, fmt.Errorf("%w: a file of certificates with an HTTP client of one's own: give that client the certificates", ErrConfig)
		}
		own := *c.HTTP
		own.Transport = d.before(own.Transport)
		return Clients{&own, &own, &own}, nil
	}
	trust, err := readTrust(c.CAFile)
	if err != nil {
		return Clients{}, err
	}
	client := func(t *http.Transport) *http.Client {
		t.TLSClientConfig = trust.Clone()
		return &http.Client{Transport: d.before(t)}
	}
	return Clients{
		Calls: client(api.NewCallTransport()), Beats: client(api.NewCallTransport()), Streams: client(api.NewStreamTransport()),
	}, nil
}

// CloseIdle closes connections that nothing is under way on.
func (c *Clients) CloseIdle() {
	c.Calls.CloseIdleConnections()
	c.Beats.CloseIdleConnections()
	c.Streams.CloseIdleConnections()
}

// readTrust returns nil for no file: what this machine trusts.
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

// door is what each request to a server passes.
type door struct {
	base  *url.URL
	token *livefile.Files[string] // nil: none
	next  http.RoundTripper
}

func (d door) before(next http.RoundTripper) door {
	d.next = next
	if next == nil {
		d.next = http.DefaultTransport
	}
	return d
}

// RoundTrip adds the token, but not where a redirect leads elsewhere, and explains what came of it.
func (d door) RoundTrip(r *http.Request) (*http.Response, error) {
	if d.token != nil && r.URL.Host == d.base.Host && r.URL.Scheme == d.base.Scheme {
		r = r.WithContext(r.Context()) // a copy: the caller's stays as it is
		r.Header = r.Header.Clone()
		token.Put(r.Header, d.token.Get())
	}
	response, err := d.next.RoundTrip(r)
	if err != nil {
		return response, d.explain(err)
	}
	if saysTLS(response) {
		return nil, errors.Join(d.invalid("it speaks TLS: want https:// instead of http://"), response.Body.Close())
	}
	return response, nil
}

// CloseIdleConnections is what http.Client looks for.
func (d door) CloseIdleConnections() {
	if c, ok := d.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// explain makes an *api.Error of what no further try will mend.
func (d door) explain(err error) error {
	if refused, found := errors.AsType[*tls.CertificateVerificationError](err); found {
		return d.invalid("its certificate is not trusted (%v); name a file with the certificate that signed it "+
			"(kinesin: --tls-ca-file or KINESIN_TLS_CA_FILE, Go: sdk.WithCAFile), and use the host name that it was made for", refused.Err)
	}
	if errors.Is(err, http.ErrSchemeMismatch) || strings.Contains(err.Error(), "first record does not look like a TLS handshake") {
		return d.invalid("it speaks no TLS: want http:// instead of https://")
	}
	return err
}

package policy

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/livefile"
	"github.com/kinesin-io/kinesin/internal/token"
)

const (
	// issuerTimeout bounds a call to an issuer.
	issuerTimeout = 5 * time.Second
	// discoverEvery is how often, at most, an issuer that did not answer is asked for its keys' address.
	discoverEvery = 10 * time.Second
	// keysFor is for how long keys are used that an issuer may have withdrawn.
	keysFor = 10 * time.Minute
	// earlyMax is how far a token's not-before time may be ahead of the server's clock.
	earlyMax = time.Minute
)

// Refusals of a JWT. The text of an error says more.
var (
	ErrJWT    = errors.New("this JWT is not accepted")
	ErrIssuer = errors.New("the issuer of this JWT does not answer")
)

// Verifier checks the JWTs of the issuers of a policy. It keeps the keys of issuers, and is safe for
// concurrent use.
type Verifier struct {
	clock clock.Clock

	mu       sync.Mutex
	verifies map[string]*issuerKeys // by URL and audience
}

// issuerKeys verifies the signatures of an issuer.
type issuerKeys struct {
	of       issuer
	verifier *oidc.IDTokenVerifier // nil: not discovered yet
	endpoint oauth2.Endpoint       // where browsers sign in; empty if the issuer did not have to say
	client   *http.Client
	tryAt    time.Duration // in monotonic time; of a verifier: when it is made anew
	failure  error
}

// NewVerifier returns a verifier.
func NewVerifier(c clock.Clock) *Verifier {
	return &Verifier{clock: c, verifies: map[string]*issuerKeys{}}
}

// IsJWT reports whether a token has the form of a JWT.
func IsJWT(text string) bool {
	header, rest, found := strings.Cut(text, ".")
	if !found || strings.Count(rest, ".") != 1 {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(header)
	return err == nil && len(raw) > 0 && raw[0] == '{'
}

// claims are what is read of a JWT before its signature is checked, to choose the keys and to explain a
// refusal.
type claims struct {
	Issuer    string  `json:"iss"`
	NotBefore float64 `json:"nbf"` // seconds
	Expiry    float64 `json:"exp"`
}

// ByJWT returns the identity of a JWT. Errors are ErrJWT and ErrIssuer.
func (v *Verifier) ByJWT(ctx context.Context, p *Policy, text string) (access.Identity, error) {
	verified, err := v.Verify(ctx, p, text)
	if err != nil {
		return access.Identity{}, err
	}
	id, err := p.ByClaims(verified.Claims)
	if err != nil {
		return id, fmt.Errorf("%w: the policy has no identity with the subject %q of its issuer", ErrJWT, verified.Subject)
	}
	return id, nil
}

// Verified is what a JWT says whose signature is that of an issuer of the policy.
type Verified struct {
	Claims

	Nonce  string
	Expiry time.Time
}

// Verify checks a JWT. Errors are ErrJWT and ErrIssuer.
func (v *Verifier) Verify(ctx context.Context, p *Policy, text string) (*Verified, error) {
	return v.verify(ctx, p, text, "", func(of *issuer) (*oidc.IDTokenVerifier, error) { return v.verifierOf(ctx, of) })
}

// Provider is an issuer of the policy at whose page browsers sign in.
type Provider struct {
	Endpoint oauth2.Endpoint
	Client   *http.Client // that reaches it

	of       *issuer
	verifier *Verifier
}

// Provider returns the issuer with this URL, as it is for a client of its own that is registered there.
// Errors are ErrIssuer, and ErrJWT if the policy does not name it.
func (v *Verifier) Provider(ctx context.Context, p *Policy, url, clientID string) (*Provider, error) {
	named := p.issuer(url)
	if named == nil {
		return nil, fmt.Errorf("%w: the policy does not name its issuer", ErrJWT)
	}
	of := *named
	of.Audience, of.browsers = clientID, true
	keys, err := v.keysOf(ctx, &of)
	if err != nil {
		return nil, err
	}
	return &Provider{Endpoint: keys.endpoint, Client: keys.client, of: &of, verifier: v}, nil
}

// Verify checks an ID token that the provider gave the client. Errors are ErrJWT and ErrIssuer.
func (o *Provider) Verify(ctx context.Context, p *Policy, text string) (*Verified, error) {
	if !IsJWT(text) {
		return nil, fmt.Errorf("%w: it is none", ErrJWT)
	}
	return o.verifier.verify(ctx, p, text, o.of.URL, func(*issuer) (*oidc.IDTokenVerifier, error) { return o.verifier.verifierOf(ctx, o.of) })
}

// verify checks a JWT by the verifier of its issuer, which has to be only, if that is not empty.
func (v *Verifier) verify(ctx context.Context, p *Policy, text, only string, by func(*issuer) (*oidc.IDTokenVerifier, error)) (*Verified, error) {
	var unverified claims
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(text, ".")[1])
	if err != nil || json.Unmarshal(payload, &unverified) != nil {
		return nil, fmt.Errorf("%w: its claims cannot be read", ErrJWT)
	}
	of := p.issuer(unverified.Issuer)
	if of == nil || only != "" && of.URL != only {
		return nil, fmt.Errorf("%w: the policy does not name its issuer", ErrJWT)
	}
	verifier, err := by(of)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, issuerTimeout)
	defer cancel()
	verified, err := verifier.Verify(ctx, text)
	if err != nil {
		return nil, v.explain(err, &unverified)
	}
	if unverified.begins().After(v.clock.Now().Time().Add(earlyMax)) {
		return nil, v.early(&unverified)
	}
	var all map[string]any
	if err := verified.Claims(&all); err != nil {
		return nil, fmt.Errorf("%w: its claims cannot be read", ErrJWT)
	}
	said, err := p.asked(of, verified.Subject, all)
	return &Verified{Claims: said, Nonce: verified.Nonce, Expiry: verified.Expiry}, err
}

// issuer returns an issuer of the policy; nil if it has none of that URL.
func (p *Policy) issuer(url string) *issuer {
	for i := range p.issuers {
		if p.issuers[i].URL == url {
			return &p.issuers[i]
		}
	}
	return nil
}

// HasIssuer reports whether the policy takes what an issuer says.
func (p *Policy) HasIssuer(url string) bool { return p.issuer(url) != nil }

func timeText(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func (c *claims) begins() time.Time { return time.Unix(int64(c.NotBefore), 0) }

func (v *Verifier) early(c *claims) error {
	return fmt.Errorf("%w: it is not valid before %s, and it is %s", ErrJWT, timeText(c.begins()), timeText(v.clock.Now().Time()))
}

// explain says why a JWT was refused, without quoting more of it than its times.
func (v *Verifier) explain(err error, c *claims) error {
	var expired *oidc.TokenExpiredError
	text := err.Error()
	switch {
	case errors.As(err, &expired) && c.Expiry == 0:
		return fmt.Errorf("%w: it has no expiry (exp)", ErrJWT)
	case errors.As(err, &expired):
		return fmt.Errorf("%w: it expired at %s, and it is %s", ErrJWT, timeText(expired.Expiry), timeText(v.clock.Now().Time()))
	case strings.Contains(text, errKeysKnown.Error()):
		return fmt.Errorf("%w: its signature is by no key that its issuer showed in the last %v", ErrJWT, keysEvery)
	case strings.Contains(text, "fetching keys"):
		return fmt.Errorf("%w: %w", ErrIssuer, err)
	case strings.Contains(text, "audience"):
		return fmt.Errorf("%w: it is for another audience", ErrJWT)
	case strings.Contains(text, "before the nbf"):
		return v.early(c)
	case strings.Contains(text, "algorithm"), strings.Contains(text, "malformed"):
		return fmt.Errorf("%w: it is not signed with an algorithm that the policy allows for its issuer", ErrJWT)
	}
	return fmt.Errorf("%w: its signature is not that of its issuer", ErrJWT)
}

// verifierOf returns the verifier of an issuer, whose address of keys it asks for once.
func (v *Verifier) verifierOf(ctx context.Context, of *issuer) (*oidc.IDTokenVerifier, error) {
	keys, err := v.keysOf(ctx, of)
	if err != nil {
		return nil, err
	}
	return keys.verifier, nil
}

// keysOf returns what is known of an issuer.
func (v *Verifier) keysOf(ctx context.Context, of *issuer) (known issuerKeys, err error) {
	v.mu.Lock()
	key := of.URL + " " + of.Audience
	keys := v.verifies[key]
	if keys == nil || !sameIssuer(&keys.of, of) {
		keys = &issuerKeys{of: *of}
		v.verifies[key] = keys
	}
	now := clock.Mono(v.clock)
	if now < keys.tryAt {
		defer v.mu.Unlock()
		return *keys, keys.failure
	}
	keys.tryAt = now + discoverEvery
	if keys.verifier == nil {
		keys.failure = fmt.Errorf("%w yet: try again", ErrIssuer) // for calls meanwhile
	}
	v.mu.Unlock()

	found, err := v.discover(ctx, of)
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case err == nil:
		keys.verifier, keys.endpoint, keys.client, keys.failure = found.verifier, found.endpoint, found.client, nil
		keys.tryAt = now + keysFor
	case keys.verifier == nil:
		keys.failure = err
	}
	return *keys, keys.failure
}

func sameIssuer(a, b *issuer) bool {
	return a.URL == b.URL && a.browsers == b.browsers && a.Audience == b.Audience && a.JWKSURL == b.JWKSURL && bytes.Equal(a.ca, b.ca) && a.TokenFile == b.TokenFile &&
		strings.Join(a.Algorithms, " ") == strings.Join(b.Algorithms, " ")
}

func (v *Verifier) discover(ctx context.Context, of *issuer) (keys issuerKeys, err error) {
	client, err := v.client(of)
	if err != nil {
		return keys, fmt.Errorf("%w: %w", ErrIssuer, err)
	}
	config := &oidc.Config{
		ClientID: of.Audience, SupportedSigningAlgs: of.Algorithms, Now: func() time.Time { return v.clock.Now().Time() },
	}
	// The keys are fetched later too, when the call that came first has ended.
	lasting := oidc.ClientContext(context.WithoutCancel(ctx), client)
	found := struct {
		JWKSURL string `json:"jwks_uri"`
	}{of.JWKSURL}
	if found.JWKSURL == "" || of.browsers {
		provider, err := oidc.NewProvider(lasting, of.URL)
		if err == nil && found.JWKSURL == "" {
			err = provider.Claims(&found)
		}
		if err != nil {
			return keys, fmt.Errorf("%w: %w", ErrIssuer, err)
		}
		keys.endpoint = provider.Endpoint()
	}
	keys.client, keys.verifier = client, oidc.NewVerifier(of.URL, newKeySet(lasting, client, found.JWKSURL, v.clock), config)
	return keys, nil
}

// client returns an HTTP client for an issuer.
func (v *Verifier) client(of *issuer) (*http.Client, error) {
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, TLSHandshakeTimeout: issuerTimeout}
	if of.CAFile != "" {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(of.ca) // has some, or the policy were refused
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	client := &http.Client{Timeout: issuerTimeout, Transport: transport}
	if of.TokenFile != "" {
		own, err := token.OpenFirst(of.TokenFile, v.clock, nil)
		if err != nil {
			return nil, err
		}
		client.Transport = withToken{own, transport}
	}
	return client, nil
}

// withToken sends a token with each request.
type withToken struct {
	token *livefile.Files[string]
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (w withToken) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	token.Put(r.Header, w.token.Get())
	return w.next.RoundTrip(r)
}

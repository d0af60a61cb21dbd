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
	verifies map[string]*issuerKeys // by URL
}

// issuerKeys verifies the signatures of an issuer.
type issuerKeys struct {
	of       issuer
	verifier *oidc.IDTokenVerifier // nil: not discovered yet
	tryAt    time.Duration         // in monotonic time; of a verifier: when it is made anew
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
	var unverified claims
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(text, ".")[1])
	if err != nil || json.Unmarshal(payload, &unverified) != nil {
		return access.Identity{}, fmt.Errorf("%w: its claims cannot be read", ErrJWT)
	}
	var of *issuer
	for i := range p.issuers {
		if p.issuers[i].URL == unverified.Issuer {
			of = &p.issuers[i]
		}
	}
	if of == nil {
		return access.Identity{}, fmt.Errorf("%w: the policy does not name its issuer", ErrJWT)
	}
	verifier, err := v.verifierOf(ctx, of)
	if err != nil {
		return access.Identity{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, issuerTimeout)
	defer cancel()
	verified, err := verifier.Verify(ctx, text)
	if err != nil {
		return access.Identity{}, v.explain(err, &unverified)
	}
	if unverified.begins().After(v.clock.Now().Time().Add(earlyMax)) {
		return access.Identity{}, v.early(&unverified)
	}
	name, found := p.subjects[oidcSubject{verified.Issuer, verified.Subject}]
	if !found {
		return access.Identity{}, fmt.Errorf("%w: the policy has no identity with the subject %q of its issuer", ErrJWT, verified.Subject)
	}
	return p.identities[name], nil
}

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
	v.mu.Lock()
	keys := v.verifies[of.URL]
	if keys == nil || !sameIssuer(&keys.of, of) {
		keys = &issuerKeys{of: *of}
		v.verifies[of.URL] = keys
	}
	now := clock.Mono(v.clock)
	if now < keys.tryAt {
		defer v.mu.Unlock()
		return keys.verifier, keys.failure
	}
	keys.tryAt = now + discoverEvery
	if keys.verifier == nil {
		keys.failure = fmt.Errorf("%w yet: try again", ErrIssuer) // for calls meanwhile
	}
	v.mu.Unlock()

	verifier, err := v.discover(ctx, of)
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case err == nil:
		keys.verifier, keys.failure = verifier, nil
		keys.tryAt = now + keysFor
	case keys.verifier == nil:
		keys.failure = err
	}
	return keys.verifier, keys.failure
}

func sameIssuer(a, b *issuer) bool {
	return a.URL == b.URL && a.Audience == b.Audience && a.JWKSURL == b.JWKSURL && bytes.Equal(a.ca, b.ca) && a.TokenFile == b.TokenFile &&
		strings.Join(a.Algorithms, " ") == strings.Join(b.Algorithms, " ")
}

func (v *Verifier) discover(ctx context.Context, of *issuer) (*oidc.IDTokenVerifier, error) {
	client, err := v.client(of)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrIssuer, err)
	}
	config := &oidc.Config{
		ClientID: of.Audience, SupportedSigningAlgs: of.Algorithms, Now: func() time.Time { return v.clock.Now().Time() },
	}
	// The keys are fetched later too, when the call that came first has ended.
	lasting := oidc.ClientContext(context.WithoutCancel(ctx), client)
	found := struct {
		JWKSURL string `json:"jwks_uri"`
	}{of.JWKSURL}
	if found.JWKSURL == "" {
		provider, err := oidc.NewProvider(lasting, of.URL)
		if err == nil {
			err = provider.Claims(&found)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrIssuer, err)
		}
	}
	return oidc.NewVerifier(of.URL, newKeySet(lasting, client, found.JWKSURL, v.clock), config), nil
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

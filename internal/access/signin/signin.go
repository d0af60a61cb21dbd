// Package signin signs browsers in at the page of an OpenID Connect provider: the authorization code flow
// with PKCE. The browser keeps, sealed, what a sign-in has to remember until it comes back, so that it may
// come back to another server. It decides nothing about what anybody may do.
package signin

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"github.com/kinesin-io/kinesin/internal/access/policy"
	"github.com/kinesin-io/kinesin/internal/access/sessions"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/livefile"
	"github.com/kinesin-io/kinesin/task"
)

// Within is how long somebody may take at the page of the provider.
const Within = 10 * time.Minute

const (
	use            = "console sign-in"
	exchangeWithin = 10 * time.Second
	secretBytesMax = 4096
	textBytesMax   = 300 // of what the provider says about an error
	nonceBytes     = 24
	flowBytesMax   = sessions.TextBytesMax
)

// ErrRefused is an error of a sign-in that does not succeed however often it is tried as it is; its text is
// for whoever signs in. Others pass.
var ErrRefused = errors.New("not signed in")

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrRefused, fmt.Errorf(format, args...)) //nolint:err113 // the text is for people
}

// Config configures a Flow.
type Config struct {
	Issuer   string
	ClientID string
	// SecretFile holds the secret of the client; empty: it has none, and PKCE alone tells it from others.
	SecretFile string
	Scopes     []string // besides openid; ScopesDefault

	Policy func() *policy.Policy
	Clock  clock.Clock
	// Verifier and Sealer may be set later, before the first use.
	Verifier *policy.Verifier
	Sealer   sessions.Sealer
	// Reread is told of each change of SecretFile; may be nil.
	Reread func(error)
}

// ScopesDefault are the scopes besides openid.
func ScopesDefault() []string { return []string{"email"} }

// Flow signs browsers in. It is safe for concurrent use.
type Flow struct {
	Config

	secret    *livefile.Files[string] // nil: none
	refreshes refreshes
}

// New returns a flow, or says what of its configuration is wrong.
func New(c Config) (*Flow, error) {
	f := &Flow{Config: c}
	if !c.Policy().HasIssuer(c.Issuer) {
		return nil, fmt.Errorf("the policy does not name the issuer %s, at whose page browsers are to sign in: add it under issuers", c.Issuer)
	}
	if c.SecretFile == "" {
		return f, nil
	}
	var err error
	f.secret, err = livefile.Open(livefile.Config[string]{
		Paths: []string{c.SecretFile}, BytesMax: secretBytesMax, Clock: c.Clock, Changed: c.Reread,
		Parse: func(contents [][]byte) (string, error) {
			secret := strings.TrimSpace(string(contents[0]))
			if secret == "" || strings.ContainsAny(secret, "\r\n") {
				return "", errors.New("want the secret of an OpenID Connect client, on one line")
			}
			return secret, nil
		},
	})
	return f, err
}

// state is what a sign-in has to remember.
type state struct {
	State, Nonce, Verifier string // PKCE's verifier
	Redirect, Next         string
	Began                  task.Instant
}

func (f *Flow) oauth(p *policy.Provider, redirect string) *oauth2.Config {
	c := &oauth2.Config{ClientID: f.ClientID, Endpoint: p.Endpoint, RedirectURL: redirect, Scopes: []string{"openid"}}
	scopes := f.Scopes
	if len(scopes) == 0 {
		scopes = ScopesDefault()
	}
	for _, s := range scopes {
		if !slices.Contains(c.Scopes, s) {
			c.Scopes = append(c.Scopes, s)
		}
	}
	if f.secret != nil {
		c.ClientSecret = f.secret.Get()
	}
	return c
}

// Begin returns where to send a browser, and what it is to keep until it comes back to redirect. next is what
// Finish gives back.
func (f *Flow) Begin(ctx context.Context, redirect, next string) (to, kept string, err error) {
	provider, err := f.provider(ctx)
	if err != nil {
		return "", "", err
	}
	s := state{State: random(), Nonce: random(), Verifier: oauth2.GenerateVerifier(), Redirect: redirect, Next: next, Began: f.Clock.Now()}
	text, err := json.Marshal(s)
	if err != nil {
		return "", "", err
	}
	if kept = base64.RawURLEncoding.EncodeToString(f.Sealer.Seal(use, text)); len(kept) > flowBytesMax {
		s.Next = "" // a link that no cookie can hold
		if text, err = json.Marshal(s); err != nil {
			return "", "", err
		}
		kept = base64.RawURLEncoding.EncodeToString(f.Sealer.Seal(use, text))
	}
	return f.oauth(provider, redirect).AuthCodeURL(s.State, oauth2.S256ChallengeOption(s.Verifier), oauth2.SetAuthURLParam("nonce", s.Nonce)), kept, nil
}

func random() string {
	b := make([]byte, nonceBytes)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

func (f *Flow) provider(ctx context.Context) (*policy.Provider, error) {
	p, err := f.Verifier.Provider(ctx, f.Policy(), f.Issuer, f.ClientID)
	switch {
	case errors.Is(err, policy.ErrJWT):
		return nil, refused("the policy of this server no longer names the issuer %s", f.Issuer)
	case err != nil:
		return nil, fmt.Errorf("%s does not answer: %w", f.Issuer, err)
	case p.Endpoint.AuthURL == "" || p.Endpoint.TokenURL == "":
		return nil, refused("%s has no page for signing in", f.Issuer)
	}
	return p, nil
}

// Finish takes what a browser comes back with, and what it kept, and returns how it is shown who somebody is,
// and what Begin was given as next.
func (f *Flow) Finish(ctx context.Context, kept string, query url.Values) (proof sessions.Proof, next string, err error) {
	s, err := f.remember(ctx, kept)
	if err != nil {
		return proof, "", err
	}
	if subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(s.State)) != 1 {
		return proof, s.Next, refused("this answer is not to the sign-in that this browser began last. Sign in again")
	}
	if issuer := query.Get("iss"); issuer != "" && issuer != f.Issuer {
		return proof, s.Next, refused("this answer is of another provider than %s", f.Issuer)
	}
	if code := query.Get("error"); code != "" {
		return proof, s.Next, refused("the provider says %s", short(strings.TrimSuffix(code+": "+query.Get("error_description"), ": ")))
	}
	proof, err = f.exchange(ctx, s, query.Get("code"))
	return proof, s.Next, err
}

// remember reads what a browser kept.
func (f *Flow) remember(ctx context.Context, kept string) (*state, error) {
	var s state
	sealed, err := base64.RawURLEncoding.DecodeString(kept)
	if err == nil {
		sealed, err = f.Sealer.Open(ctx, use, sealed)
	}
	if err == nil {
		err = json.Unmarshal(sealed, &s)
	}
	if err != nil || f.Clock.Now() > s.Began.Add(Within) {
		return nil, refused("this sign-in took longer than %d minutes, or was begun in another browser. Sign in again", int(Within.Minutes()))
	}
	return &s, nil
}

// exchange gets the ID token for a code, and returns what it says.
func (f *Flow) exchange(ctx context.Context, s *state, code string) (proof sessions.Proof, err error) {
	provider, err := f.provider(ctx)
	if err != nil {
		return proof, err
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, oauth2.HTTPClient, provider.Client), exchangeWithin)
	defer cancel()
	got, err := f.oauth(provider, s.Redirect).Exchange(ctx, code, oauth2.VerifierOption(s.Verifier))
	if said, is := errors.AsType[*oauth2.RetrieveError](err); is && said.ErrorCode != "" {
		return proof, refused("the provider refused the code: %s", short(strings.TrimSuffix(said.ErrorCode+": "+said.ErrorDescription, ": ")))
	}
	if err != nil {
		return proof, fmt.Errorf("%s did not give a token: %w", f.Issuer, withoutBody(err))
	}
	text, _ := got.Extra("id_token").(string)
	if text == "" {
		return proof, refused("the provider gave no ID token")
	}
	p := f.Policy()
	verified, err := provider.Verify(ctx, p, text)
	switch {
	case errors.Is(err, policy.ErrJWT):
		return proof, refused("the ID token of the provider: %w", err)
	case err != nil:
		return proof, err
	case subtle.ConstantTimeCompare([]byte(verified.Nonce), []byte(s.Nonce)) != 1:
		return proof, refused("the ID token of the provider is not for this sign-in")
	}
	if _, err := p.ByClaims(verified.Claims); err != nil {
		return proof, refused("%s says that you are %s (subject %q), for whom the policy has no identity. An administrator can add one, by your subject, your e-mail address or one of your groups",
			f.Issuer, cmp.Or(verified.Email, "somebody whose e-mail address it does not vouch for"), verified.Subject)
	}
	return *proofOf(verified, got), nil
}

// withoutBody leaves out what a provider answered that is no error of OAuth: it may be anything.
func withoutBody(err error) error {
	if said, is := errors.AsType[*oauth2.RetrieveError](err); is && said.Response != nil {
		return fmt.Errorf("it answered %s", said.Response.Status)
	}
	return err
}

func short(text string) string {
	if len(text) > textBytesMax {
		text = strings.ToValidUTF8(text[:textBytesMax], "") + "…"
	}
	return text
}

const (
	// refreshAhead is how long before its token ends a session asks for another one. It is longer than a page
	// streams, which comes again with a token that lasts.
	refreshAhead = 15 * time.Minute
	// refreshPause is how often a session asks at most, whatever came of it. Requests that still have the
	// cookie of before get the answer of then: a provider may take a refresh token only once.
	refreshPause = time.Minute
	// refreshedMax bounds the sessions whose answers are remembered. One too many does not ask.
	refreshedMax = 10_000
)

// refreshes remembers the answers of the last refreshPause, by session.
type refreshes struct {
	mu    sync.Mutex
	known map[string]*refreshed
	swept task.Instant // when those that are over were forgotten
}

type refreshed struct {
	at    task.Instant
	proof *sessions.Proof // nil: the provider gave no token
}

// begin returns what is known of a session, and whether the caller is to ask for it.
func (r *refreshes) begin(id string, now task.Instant) (known *refreshed, ask bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known = r.known[id]; known != nil && now < known.at.Add(refreshPause) {
		return known, false
	}
	if now >= r.swept.Add(refreshPause) {
		maps.DeleteFunc(r.known, func(_ string, of *refreshed) bool { return now >= of.at.Add(refreshPause) })
		r.swept = now
	}
	if len(r.known) >= refreshedMax {
		return nil, false
	}
	if r.known == nil {
		r.known = map[string]*refreshed{}
	}
	known = &refreshed{at: now}
	r.known[id] = known
	return known, true
}

// Refresh gives a session whose token ends soon what the provider says now of whom it is of, and reports
// whether it did. A session goes on as it is until its token ends if the provider gives none.
func (f *Flow) Refresh(ctx context.Context, s *sessions.Session) (bool, error) {
	now := f.Clock.Now()
	if s.OIDC == nil || s.OIDC.Issuer != f.Issuer || s.Refresh == "" || now < task.InstantOf(time.Unix(s.Expires, 0)).Add(-refreshAhead) {
		return false, nil
	}
	known, ask := f.refreshes.begin(string(s.ID), now)
	var err error
	if ask {
		var proof *sessions.Proof
		proof, err = f.refresh(ctx, s)
		f.refreshes.mu.Lock()
		known.proof = proof
		f.refreshes.mu.Unlock()
	}
	if known == nil {
		return false, err
	}
	f.refreshes.mu.Lock()
	defer f.refreshes.mu.Unlock()
	if known.proof == nil || known.proof.Expires <= s.Expires {
		return false, err
	}
	s.Proof = *known.proof
	return true, nil
}

// refresh asks the provider.
func (f *Flow) refresh(ctx context.Context, s *sessions.Session) (*sessions.Proof, error) {
	provider, err := f.provider(ctx)
	if err != nil {
		return nil, err
	}
	// An answer that was asked for is noted, also if the browser has gone.
	ctx, cancel := context.WithTimeout(context.WithValue(context.WithoutCancel(ctx), oauth2.HTTPClient, provider.Client), exchangeWithin)
	defer cancel()
	got, err := f.oauth(provider, "").TokenSource(ctx, &oauth2.Token{RefreshToken: s.Refresh}).Token()
	if err != nil {
		return nil, withoutBody(err)
	}
	text, _ := got.Extra("id_token").(string)
	if text == "" {
		return nil, errors.New("the provider gave no ID token for the refresh token")
	}
	p := f.Policy()
	verified, err := provider.Verify(ctx, p, text)
	if err != nil {
		return nil, err
	}
	if verified.Subject != s.OIDC.Subject {
		return nil, errors.New("the provider gave the ID token of somebody else for the refresh token")
	}
	if _, err := p.ByClaims(verified.Claims); err != nil {
		return nil, err
	}
	return proofOf(verified, got), nil
}

// proofOf returns what a session keeps of what the provider gave.
func proofOf(verified *policy.Verified, got *oauth2.Token) *sessions.Proof {
	return &sessions.Proof{OIDC: &verified.Claims, Expires: verified.Expiry.Unix(), Refresh: got.RefreshToken}
}

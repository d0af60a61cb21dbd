package policy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// issuerServer is an OpenID Connect issuer.
type issuerServer struct {
	*httptest.Server

	key   *ecdsa.PrivateKey
	shown atomic.Pointer[jose.JSONWebKey]
	calls atomic.Int32
	keys  atomic.Int32 // how often it showed its keys
	away  atomic.Bool
}

func newIssuer(t *testing.T) *issuerServer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuerServer{key: key}
	i.shown.Store(&jose.JSONWebKey{Key: key.Public(), KeyID: "k", Algorithm: "ES256", Use: "sig"})
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		i.calls.Add(1)
		if i.away.Load() {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys"})
	})
	mux.HandleFunc("/keys", func(w http.ResponseWriter, _ *http.Request) {
		i.keys.Add(1)
		if i.away.Load() {
			http.Error(w, "away", http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{*i.shown.Load()}})
	})
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

// sign returns a JWT with these claims.
func sign(t *testing.T, alg jose.SignatureAlgorithm, key any, claims map[string]any) string {
	t.Helper()
	return signAs(t, "k", alg, key, claims)
}

// signAs is sign, and names a key.
func signAs(t *testing.T, kid string, alg jose.SignatureAlgorithm, key any, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: key}, (&jose.SignerOptions{}).WithHeader("kid", kid))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func policyOf(t *testing.T, i *issuerServer) *Policy {
	t.Helper()
	p, err := Parse([]byte(`
identities:
  - name: ci
    oidc: {issuer: "` + i.URL + `", subject: "repo:acme/shop"}
grants:
  - identity: ci
    allow: ["schedule:mail-*"]
issuers:
  - {url: "` + i.URL + `", audience: kinesin}
`))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func TestByJWT(t *testing.T) {
	i := newIssuer(t)
	p := policyOf(t, i)
	virtual := clock.NewVirtual(task.InstantOf(noon), 1)
	v := NewVerifier(virtual.Process(0))
	claims := func(change map[string]any) map[string]any {
		all := map[string]any{
			"iss": i.URL, "aud": []string{"other", "kinesin"}, "sub": "repo:acme/shop",
			"iat": noon.Unix(), "exp": noon.Add(time.Hour).Unix(), "nbf": noon.Add(-time.Minute).Unix(),
		}
		for name, value := range change {
			if all[name] = value; value == nil {
				delete(all, name)
			}
		}
		return all
	}
	other, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := sign(t, jose.ES256, i.key, claims(nil))
	none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + strings.Split(good, ".")[1] + "."
	der, _ := json.Marshal(jose.JSONWebKey{Key: i.key.Public()})
	for name, c := range map[string]struct{ text, says string }{
		"good":                      {good, ""},
		"no nbf":                    {sign(t, jose.ES256, i.key, claims(map[string]any{"nbf": nil})), ""},
		"expired":                   {sign(t, jose.ES256, i.key, claims(map[string]any{"exp": noon.Add(-time.Second).Unix()})), "it expired at 2026-11-23T11:59:59Z, and it is 2026-11-23T12:00:00Z"},
		"no expiry":                 {sign(t, jose.ES256, i.key, claims(map[string]any{"exp": nil})), "it has no expiry (exp)"},
		"not yet":                   {sign(t, jose.ES256, i.key, claims(map[string]any{"nbf": noon.Add(2 * time.Minute).Unix()})), "not valid before 2026-11-23T12:02:00Z"},
		"a clock an hour off":       {sign(t, jose.ES256, i.key, claims(map[string]any{"nbf": noon.Add(time.Hour).Unix()})), "not valid before 2026-11-23T13:00:00Z, and it is 2026-11-23T12:00:00Z"},
		"for others":                {sign(t, jose.ES256, i.key, claims(map[string]any{"aud": "other"})), "another audience"},
		"of another subject":        {sign(t, jose.ES256, i.key, claims(map[string]any{"sub": "repo:evil/shop"})), `no identity with the subject "repo:evil/shop"`},
		"of another issuer":         {sign(t, jose.ES256, i.key, claims(map[string]any{"iss": "https://evil.example"})), "does not name its issuer"},
		"signed by another":         {sign(t, jose.ES256, other, claims(nil)), "its signature"},
		"alg none":                  {none, "algorithm"},
		"symmetric, by the key":     {sign(t, jose.HS256, der, claims(nil)), "algorithm"},
		"changed":                   {good[:len(good)-4] + "AAAA", "its signature"},
		"claims that are no object": {strings.Split(good, ".")[0] + ".W10." + strings.Split(good, ".")[2], "cannot be read"},
	} {
		id, err := v.ByJWT(t.Context(), p, c.text)
		if c.says == "" {
			if err != nil || id.Name != "ci" || !id.Grants.Allow(access.Schedule, "mail-a") {
				t.Errorf("%s: %+v, %v", name, id, err)
			}
			continue
		}
		if !errors.Is(err, ErrJWT) || !strings.Contains(err.Error(), c.says) || id.Name != "" || strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %+v, %v, want %q", name, id, err, c.says)
		}
	}
	if n := i.calls.Load(); n != 1 {
		t.Errorf("the issuer was asked for its configuration %d times", n)
	}
	virtual.Advance(2 * time.Hour)
	if _, err := v.ByJWT(t.Context(), p, good); !errors.Is(err, ErrJWT) {
		t.Errorf("two hours later: %v", err)
	}
}

func TestAnIssuerThatDoesNotAnswerIsAskedAgain(t *testing.T) {
	i := newIssuer(t)
	i.away.Store(true)
	virtual := clock.NewVirtual(task.InstantOf(noon), 1)
	v, p := NewVerifier(virtual.Process(0)), policyOf(t, i)
	text := sign(t, jose.ES256, i.key, map[string]any{"iss": i.URL, "aud": "kinesin", "sub": "repo:acme/shop", "exp": noon.Add(time.Hour).Unix()})
	for range 5 {
		if _, err := v.ByJWT(t.Context(), p, text); !errors.Is(err, ErrIssuer) || errors.Is(err, ErrJWT) {
			t.Error(err)
		}
	}
	if n := i.calls.Load(); n != 1 {
		t.Errorf("asked %d times at once", n)
	}
	i.away.Store(false)
	virtual.Advance(discoverEvery)
	if id, err := v.ByJWT(t.Context(), p, text); err != nil || id.Name != "ci" {
		t.Errorf("%+v, %v", id, err)
	}
}

// Anybody can send JWTs, each of which names another key: they do not make the server ask the issuer each
// time.
func TestJunkDoesNotAskTheIssuerForItsKeys(t *testing.T) {
	i := newIssuer(t)
	virtual := clock.NewVirtual(task.InstantOf(noon), 1)
	v, p := NewVerifier(virtual.Process(0)), policyOf(t, i)
	claims := map[string]any{"iss": i.URL, "aud": "kinesin", "sub": "repo:acme/shop", "exp": noon.Add(time.Hour).Unix()}
	next, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good, renewed := sign(t, jose.ES256, i.key, claims), signAs(t, "next", jose.ES256, next, claims)
	works := func(when, text string) {
		t.Helper()
		if id, err := v.ByJWT(t.Context(), p, text); err != nil || id.Name != "ci" {
			t.Errorf("%s: %+v, %v", when, id, err)
		}
	}
	junk := func(fetches int32) {
		t.Helper()
		for n := range 50 {
			_, err := v.ByJWT(t.Context(), p, signAs(t, fmt.Sprint("key ", n), jose.ES256, next, claims))
			if !errors.Is(err, ErrJWT) || !strings.Contains(err.Error(), "its signature") {
				t.Fatalf("junk: %v", err)
			}
		}
		if n := i.keys.Load(); n != fetches {
			t.Errorf("the issuer was asked for its keys %d times, want %d", n, fetches)
		}
	}
	asks := func(text string, fetches int32) { // a call that began before the clock moved may end now
		for virtual.Advance(keysEvery); i.keys.Load() < fetches; {
			_, _ = v.ByJWT(t.Context(), p, text)
		}
	}
	if _, err := v.verifierOf(t.Context(), &p.issuers[0]); err != nil {
		t.Fatal(err)
	}
	var first sync.WaitGroup
	for range 20 { // all find no key at first
		first.Go(func() { works("at first", good) })
	}
	first.Wait()
	junk(1)
	works("after junk", good)
	i.shown.Store(&jose.JSONWebKey{Key: next.Public(), KeyID: "next", Algorithm: "ES256", Use: "sig"})
	asks(renewed, 2)
	works("a new key of the issuer", renewed)
	junk(2)

	i.away.Store(true)
	asks(good, 3)
	for range 5 {
		if _, err := v.ByJWT(t.Context(), p, good); !errors.Is(err, ErrIssuer) || errors.Is(err, ErrJWT) {
			t.Errorf("while it is away: %v", err)
		}
	}
	works("while it is away, by a known key", renewed)
	if n := i.keys.Load(); n != 3 {
		t.Errorf("asked %d times, want 3", n)
	}
}

func TestIsJWT(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "abc": false, "a.b.c": false, "eyJhbGciOiJub25lIn0.e30.": true, "eyJhbGciOiJub25lIn0.e30": false,
		"kinesin_" + strings.Repeat("a", 43): false,
	} {
		if IsJWT(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

package server

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/internal/tlstest"
	"github.com/kinesin-io/kinesin/internal/token"
)

func address4(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 32)
}

// Whoever guesses is slowed down to a rate, and nobody else is.
func TestGuessesAreHeld(t *testing.T) {
	v := clock.NewVirtual(0, 1)
	g := newGuesses(v.Process(0))
	enter := func(from netip.Prefix) time.Duration {
		t.Helper()
		wait, leave := g.enter(from)
		if leave == nil {
			t.Fatal("no room")
		}
		leave()
		return wait
	}
	for n := range guessesAtOnce {
		if wait := enter(address4(1)); wait != 0 {
			t.Fatalf("guess %d waits %v", n, wait)
		}
	}
	for n := 1; n <= 70; n++ {
		if wait, want := enter(address4(1)), min(time.Duration(n)*guessEvery, guessHeldFor); wait != want {
			t.Fatalf("guess %d waits %v, want %v", n, wait, want)
		}
	}
	if wait := enter(address4(2)); wait != 0 {
		t.Errorf("another address waits %v", wait)
	}
	v.Advance(guessHeldFor)
	if wait := enter(address4(1)); wait != guessEvery {
		t.Errorf("after its refusals waited an address waits %v", wait)
	}
	v.Advance(guessesAtOnce*guessEvery + guessEvery)
	if wait := enter(address4(1)); wait != 0 {
		t.Errorf("after a pause an address waits %v", wait)
	}
}

// What waits is bounded, by address and in all.
func TestHeldGuessesAreBounded(t *testing.T) {
	g := newGuesses(clock.NewVirtual(0, 1).Process(0))
	var leave []func()
	held := func(from netip.Prefix) (n int) {
		for range guessesAtOnce + guessesHeldMax + 1 {
			wait, done := g.enter(from)
			if done == nil {
				return n
			}
			if wait > 0 {
				n++
				leave = append(leave, done)
			}
		}
		return n
	}
	if n := held(address4(0)); n != guessesHeldOfAddress {
		t.Errorf("%d of one address wait", n)
	}
	all := guessesHeldOfAddress
	for i := 1; i < 2*guessesHeldMax/guessesHeldOfAddress; i++ {
		all += held(address4(i))
	}
	if all != guessesHeldMax {
		t.Errorf("%d wait", all)
	}
	for _, done := range leave {
		done()
	}
	if n := held(address4(0)); n != guessesHeldOfAddress {
		t.Errorf("%d of one address wait after the others left", n)
	}
}

// Addresses have a bound, beyond which they share a place until others are forgotten.
func TestGuessersAreBounded(t *testing.T) {
	v := clock.NewVirtual(0, 1)
	g := newGuesses(v.Process(0))
	enter := func(n int) time.Duration {
		wait, leave := g.enter(address4(n))
		leave()
		return wait
	}
	for n := range 3 * guessersMax {
		enter(n)
	}
	if n := len(g.of); n > guessersMax+1 {
		t.Errorf("%d addresses are kept", n)
	}
	if wait := enter(4 * guessersMax); wait != guessHeldFor {
		t.Errorf("one address more waits %v, want as long as the others without a place", wait)
	}
	if wait := enter(0); wait != 0 {
		t.Errorf("one with a place waits %v", wait)
	}
	v.Advance(time.Minute)
	if wait := enter(4 * guessersMax); wait != 0 || len(g.of) != 1 {
		t.Errorf("after a minute one address more waits %v, beside %d others", wait, len(g.of)-1)
	}
}

// A token that the policy knows by its hash, and that is too short, works nowhere; right ones work whatever
// else comes from their address.
func TestShortTokensAreRefused(t *testing.T) {
	t.Parallel()
	short := strings.Repeat("s", token.CharsMin-1)
	hashOf := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	}
	r := serve(t, Config{PolicyFile: writeFile(t, filepath.Join(t.TempDir(), "policy.yaml"), "identities:\n"+
		"  - {name: one, token_sha256: "+hashOf("a")+"}\n  - {name: short, token_sha256: "+hashOf(short)+"}\n  - {name: good, token_sha256: "+hashOf(short+"s")+"}\n"+
		"grants:\n  - {identity: one, allow: ['*:*']}\n  - {identity: short, allow: ['*:*']}\n  - {identity: good, allow: ['*:*']}\n")})
	for _, sent := range []string{"a", short, " " + short, short + " "} {
		answer, code := r.callWith(sent, kinesinv1connect.LambdaServiceListLambdasProcedure, `{}`)
		if code != "unauthenticated" || !strings.Contains(answer, "32 characters") {
			t.Errorf("%q calls: %s", sent, answer)
		}
		if response, _ := r.page(r.browser(), "POST", "/ui/signin", url.Values{"token": {sent}}); response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%q signs in: %d", sent, response.StatusCode)
		}
		if status, _ := r.plain("", "GET", "/v1/lambdas", "", "Authorization", "Bearer "+sent); status != http.StatusUnauthorized {
			t.Errorf("%q calls in plain HTTP: %d", sent, status)
		}
	}
	if answer, code := r.callWith(short+"s", kinesinv1connect.LambdaServiceListLambdasProcedure, `{}`); code != "" {
		t.Errorf("a token of %d characters: %s", token.CharsMin, answer)
	}
}

// Refusals of tokens wait for their turn, on every way in, and a right token does not.
func TestARightTokenIsNotHeld(t *testing.T) {
	t.Parallel()
	v := clock.NewVirtual(0, 1) // whose time stands still: what is held stays so
	tokens, err := token.OpenSet(tokenFile(t, goodToken), v.Process(0), func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	g := newGate(credentials{tokens: tokens}, noTokens{}, nil, node.NewMetrics(node.MetricsConfig{}), http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	g.guesses = newGuesses(v.Process(0))
	call := func(sent string) (answered <-chan int) {
		done := make(chan int, 1)
		go func() {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil)
			r.Header.Set("Authorization", "Bearer "+sent)
			w := httptest.NewRecorder()
			g.ServeHTTP(w, r)
			done <- w.Code
		}()
		return done
	}
	wrong := "wrong" + goodToken
	for range guessesAtOnce {
		if code := <-call(wrong); code != http.StatusUnauthorized {
			t.Fatal(code)
		}
	}
	held := call(wrong)
	runtest.Eventually(t, 10*time.Second, "a refusal waits", func() bool { _, waits := v.Next(); return waits })
	if code := <-call(goodToken); code != http.StatusOK {
		t.Errorf("a right token: %d", code)
	}
	select {
	case code := <-held:
		t.Errorf("the guess was answered before its turn: %d", code)
	default:
	}
	v.Advance(guessEvery)
	if code := <-held; code != http.StatusUnauthorized {
		t.Errorf("a guess in its turn: %d", code)
	}
}

// Over TLS, its own or that of a proxy before it, browsers learn not to come without.
func TestStrictTLS(t *testing.T) {
	t.Parallel()
	a := tlstest.New(t)
	const header = "Strict-Transport-Security"
	over := serveTLS(t, Config{AuthTokenFile: tokenFile(t, goodToken), TLSCertFile: a.CertFile, TLSKeyFile: a.KeyFile}, a)
	plain := serve(t, Config{})
	for _, path := range []string{"/ui/", "/ui/signin", "/ui/static/app.css", "/livez", "/metrics", "/v1/lambdas", "/nothing"} {
		if response, _ := over.page(over.browser(), "GET", path, nil); !strings.HasPrefix(response.Header.Get(header), "max-age=") {
			t.Errorf("%s over TLS: %v", path, response.Header)
		}
		if response, _ := plain.page(plain.browser(), "GET", path, nil); response.Header.Get(header) != "" {
			t.Errorf("%s without TLS: %v", path, response.Header)
		}
		if response, _ := plain.page(plain.browser(), "GET", path, nil, "X-Forwarded-Proto", "https"); response.Header.Get(header) == "" {
			t.Errorf("%s behind a proxy with TLS: %v", path, response.Header)
		}
	}
}

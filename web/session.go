package web

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// Bounds of sessions.
const (
	sessionsMax      = 1000 // of a server; the one that was used longest ago ends for a new one
	sessionsTokenMax = 20   // of one token
	sessionLife      = 12 * time.Hour
	sessionIdleMax   = 2 * time.Hour
	sessionIDBytes   = 32
)

// Cookies of sessions. A browser takes the first name only over TLS, for the whole host and from the host
// itself.
const (
	cookieTLS   = "__Host-kinesin"
	cookiePlain = "kinesin_console"
)

// Sessions are the browsers that are signed in. Each stands for a token, which is checked anew with every
// request: a session can do no more than its token, and ends with it. They are kept in memory alone.
type Sessions struct {
	clock clock.Clock

	mu  sync.Mutex
	all map[[sha256.Size]byte]*session // by the hash of the id
}

type session struct {
	token       string
	began, used time.Duration // monotonic
}

func newSessions(c clock.Clock) *Sessions {
	return &Sessions{clock: c, all: map[[sha256.Size]byte]*session{}}
}

// Token returns the token for which a browser is signed in.
func (s *Sessions) Token(r *http.Request) (token string, found bool) {
	id := idOf(r)
	if id == "" {
		return "", false
	}
	now := clock.Mono(s.clock)
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sha256.Sum256([]byte(id))
	one := s.all[key]
	if one == nil {
		return "", false
	}
	if now-one.began > sessionLife || now-one.used > sessionIdleMax {
		delete(s.all, key)
		return "", false
	}
	one.used = now
	return one.token, true
}

// start begins a session under a new id, whatever the browser sent, and ends the one that it had.
func (s *Sessions) start(w http.ResponseWriter, r *http.Request, token string) {
	s.End(w, r)
	id := make([]byte, sessionIDBytes)
	_, _ = rand.Read(id) // never fails
	text := base64.RawURLEncoding.EncodeToString(id)
	now := clock.Mono(s.clock)
	s.mu.Lock()
	s.makeRoom(token, now)
	s.all[sha256.Sum256([]byte(text))] = &session{token: token, began: now, used: now}
	s.mu.Unlock()
	http.SetCookie(w, cookie(r, text, int(sessionLife.Seconds())))
}

// makeRoom ends what is over, and the session of the token, or of all, that was used longest ago. Call with
// mu held.
func (s *Sessions) makeRoom(token string, now time.Duration) {
	type used struct {
		key [sha256.Size]byte
		at  time.Duration
	}
	var all, own []used
	for key, one := range s.all {
		if now-one.began > sessionLife || now-one.used > sessionIdleMax {
			delete(s.all, key)
			continue
		}
		all = append(all, used{key, one.used})
		if one.token == token {
			own = append(own, used{key, one.used})
		}
	}
	oldest := func(some []used) [sha256.Size]byte {
		return slices.MinFunc(some, func(a, b used) int { return cmp.Compare(a.at, b.at) }).key
	}
	switch {
	case len(own) >= sessionsTokenMax:
		delete(s.all, oldest(own))
	case len(all) >= sessionsMax:
		delete(s.all, oldest(all))
	}
}

// End ends the session of a browser, if it has one.
func (s *Sessions) End(w http.ResponseWriter, r *http.Request) {
	id := idOf(r)
	if id == "" {
		return
	}
	s.mu.Lock()
	delete(s.all, sha256.Sum256([]byte(id)))
	s.mu.Unlock()
	http.SetCookie(w, cookie(r, "", -1))
}

func idOf(r *http.Request) string {
	name := cookiePlain
	if isTLS(r) {
		name = cookieTLS
	}
	if c, err := r.Cookie(name); err == nil {
		return c.Value
	}
	return ""
}

// isTLS reports whether the browser speaks TLS, as far as can be told. A proxy that ends TLS says so; who
// lies about it loses only his own cookie.
func isTLS(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

func cookie(r *http.Request, value string, maxAge int) *http.Cookie {
	c := &http.Cookie{Name: cookiePlain, Value: value, Path: Prefix, HttpOnly: true, SameSite: http.SameSiteStrictMode, MaxAge: maxAge}
	if isTLS(r) {
		c.Name, c.Path, c.Secure = cookieTLS, "/", true
	}
	return c
}

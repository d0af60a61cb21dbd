package web

import (
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/kinesin-io/kinesin/internal/access/sessions"
)

// Cookies of the console. A browser takes the first names only over TLS, for the whole host and from the host
// itself.
const (
	cookieTLS, cookiePlain = "__Host-kinesin", "kinesin_console"        // a session
	flowTLS, flowPlain     = "__Host-kinesin-signin", "kinesin_sign_in" // a sign-in at the page of a provider
)

// Session returns the session of a browser. Errors are those of sessions.Registry.Find.
func (k *Console) Session(r *http.Request) (*sessions.Session, error) {
	text := valueOf(r, cookiePlain, cookieTLS)
	if text == "" || k.Sessions == nil {
		return nil, sessions.ErrNone
	}
	return k.Sessions.Find(r.Context(), text)
}

// begin begins a session under a new id, whatever the browser sent, and ends the one that it had.
func (k *Console) begin(w http.ResponseWriter, r *http.Request, proof sessions.Proof) error {
	text, err := k.Sessions.Begin(proof)
	if err != nil {
		return err
	}
	if old := valueOf(r, cookiePlain, cookieTLS); old != "" {
		if err := k.Sessions.End(r.Context(), old); err != nil && !errors.Is(err, sessions.ErrFull) {
			return err
		}
	}
	http.SetCookie(w, sessionCookie(r, text, sessions.Life))
	return nil
}

// renew notes in the cookie of a browser, now and then, that its session is used, and what its provider says
// of it when its token ends soon.
func (k *Console) renew(w http.ResponseWriter, r *http.Request, s *sessions.Session) {
	changed := false
	if k.Provider != nil {
		var err error
		if changed, err = k.Provider.Refresh(r.Context(), s); err != nil {
			k.Log.WarnContext(r.Context(), "the provider gave no new token for a session, which ends with the one that it has", slog.Any("error", err))
		}
	}
	if text, ok := k.Sessions.Renew(s, changed); ok {
		http.SetCookie(w, sessionCookie(r, text, sessions.Life))
	}
}

// EndSession ends the session of a browser, if it has one. The browser forgets it also if that fails.
func (k *Console) EndSession(w http.ResponseWriter, r *http.Request) error {
	text := valueOf(r, cookiePlain, cookieTLS)
	if text == "" || k.Sessions == nil {
		return nil
	}
	http.SetCookie(w, sessionCookie(r, "", 0))
	return k.Sessions.End(r.Context(), text)
}

func valueOf(r *http.Request, plain, tls string) string {
	name := plain
	if IsTLS(r) {
		name = tls
	}
	if c, err := r.Cookie(name); err == nil {
		return c.Value
	}
	return ""
}

// IsTLS reports whether the browser speaks TLS, as far as can be told. A proxy that ends TLS says so; who
// lies about it loses only his own cookie.
func IsTLS(r *http.Request) bool {
	return r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"
}

// sessionCookie is sent by no other site, not even by its links.
func sessionCookie(r *http.Request, value string, life time.Duration) *http.Cookie {
	return cookie(r, cookiePlain, cookieTLS, value, life, http.SameSiteStrictMode)
}

// flowCookie is sent when the page of a provider leads back here.
func flowCookie(r *http.Request, value string, life time.Duration) *http.Cookie {
	return cookie(r, flowPlain, flowTLS, value, life, http.SameSiteLaxMode)
}

// cookie returns a cookie that scripts do not see; without life it takes away the one that there is.
func cookie(r *http.Request, plain, tls, value string, life time.Duration, site http.SameSite) *http.Cookie {
	c := &http.Cookie{Name: plain, Value: value, Path: Prefix, HttpOnly: true, Secure: IsTLS(r), SameSite: site, MaxAge: int(life.Seconds())} //nolint:gosec // Secure wherever TLS is
	if life == 0 {
		c.MaxAge = -1
	}
	if c.Secure {
		c.Name, c.Path = tls, "/"
	}
	return c
}

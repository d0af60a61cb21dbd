package web

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/internal/access/sessions"
)

// flowWithin is how long a browser keeps what it needs for a sign-in at the page of a provider.
const flowWithin = 10 * time.Minute

// askToSignIn shows the page for signing in.
func (c *call) askToSignIn(status int, next, refused string) error {
	provider := ""
	if c.Provider != nil {
		provider = c.Provider.Name()
	}
	return c.render(status, barePage("Sign in", signInPage(next, refused, provider)))
}

// showSignIn asks who somebody is.
func showSignIn(c *call) error {
	if c.SignIn == nil {
		return c.goTo(Prefix, "")
	}
	return c.askToSignIn(http.StatusOK, local(c.field("next")), "")
}

func signIn(c *call) error {
	if c.SignIn == nil {
		return c.goTo(Prefix, "")
	}
	next, token := local(c.field("next")), c.field("token")
	proof, err := c.SignIn(c.w, c.r, token)
	if err == nil {
		err = c.begin(c.w, c.r, proof)
	}
	switch {
	case errors.Is(err, ErrRefused):
		return c.askToSignIn(http.StatusUnauthorized, next, "This token is not accepted. It may be mistyped, expired or revoked.")
	case errors.Is(err, sessions.ErrLong):
		return c.askToSignIn(http.StatusUnauthorized, next, "This token says more of you than a cookie can hold: it names too many groups of the policy.")
	case err != nil:
		return c.askToSignIn(http.StatusServiceUnavailable, next, "The token cannot be checked for now. Try again.")
	}
	return c.goTo(next, "")
}

// signInElsewhere sends a browser to the page of the provider.
func signInElsewhere(c *call) error {
	if c.Provider == nil {
		return c.goTo(Prefix+"signin", "")
	}
	next := local(c.field("next"))
	to, kept, err := c.Provider.Begin(c.r.Context(), c.redirect(), next)
	if err != nil {
		return c.notSignedIn(next, err)
	}
	http.SetCookie(c.w, flowCookie(c.r, kept, flowWithin))
	http.Redirect(c.w, c.r, to, http.StatusSeeOther)
	return nil
}

// redirect returns the URL of CallbackPath, as the provider has to know it.
func (c *call) redirect() string {
	if c.RedirectURL != "" {
		return c.RedirectURL
	}
	scheme := "http://"
	if IsTLS(c.r) {
		scheme = "https://"
	}
	return scheme + c.r.Host + CallbackPath
}

// comeBack takes a browser that was at the page of the provider. It goes on by a page of this site, since the
// cookie of its session is not sent with what another one began.
func comeBack(c *call) error {
	if c.Provider == nil {
		return c.goTo(Prefix+"signin", "")
	}
	kept := valueOf(c.r, flowPlain, flowTLS)
	http.SetCookie(c.w, flowCookie(c.r, "", 0))
	proof, next, err := c.Provider.Finish(c.r, kept, c.r.URL.Query())
	if err == nil {
		err = c.begin(c.w, c.r, proof)
	}
	if err != nil {
		return c.notSignedIn(local(next), err)
	}
	return c.render(http.StatusOK, againPage(local(next)))
}

// notSignedIn says why a sign-in at the page of a provider came to nothing.
func (c *call) notSignedIn(next string, err error) error {
	switch {
	case errors.Is(err, ErrRefused):
		return c.askToSignIn(http.StatusUnauthorized, next, sentence(err.Error()))
	case errors.Is(err, sessions.ErrLong):
		return c.askToSignIn(http.StatusUnauthorized, next, "The provider says more of you than a cookie can hold: you are in too many groups of the policy.")
	}
	c.Log.WarnContext(c.r.Context(), "console cannot sign somebody in", slog.Any("error", err))
	return c.askToSignIn(http.StatusServiceUnavailable, next, "The provider, or the store of this server, does not answer for now. Try again.")
}

func signOut(c *call) error {
	to := Prefix + "signin"
	if c.SignIn == nil {
		to = Prefix
	}
	if err := c.EndSession(c.w, c.r); err != nil {
		c.Log.WarnContext(c.r.Context(), "a session of the console goes on until it is over", slog.Any("error", err))
		return c.askToSignIn(http.StatusServiceUnavailable, Prefix, "This browser is signed out. But the server could not note it: a copy of its cookie is good for some hours more.")
	}
	return c.goTo(to, "")
}

// local returns a path of the console, whatever it is given: nobody is sent elsewhere.
func local(path string) string {
	if !strings.HasPrefix(path, Prefix) || strings.HasPrefix(path, Prefix+"sign") || strings.ContainsAny(path, "\\\r\n\x00") || strings.Contains(path, "//") || strings.Contains(path, "/..") {
		return Prefix
	}
	return path
}

// AskToSignIn sends a browser that is not signed in to where it can. One that follows a link from another
// site did not send its cookie, so it first comes once more by itself.
func AskToSignIn(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	to := Prefix + "signin"
	if r.Method == http.MethodGet && r.URL.Path != Prefix {
		to += "?next=" + escapeQuery(r.URL.RequestURI())
	}
	if r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Method == http.MethodGet && r.URL.Query().Get("again") == "" {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_ = againPage(r.URL.RequestURI()).Render(w) // fails only if the browser has gone
		return
	}
	if isStream(r) { // which then asks for its part without one
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.Header.Get("HX-Request") != "" { // a part of a page that is shown
		w.Header().Set("HX-Redirect", to)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // to the page for signing in, whatever comes behind
}

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

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

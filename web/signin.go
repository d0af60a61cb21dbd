package web

import (
	"errors"
	"net/http"
	"strings"
)

type signInBody struct {
	Next    string
	Refused string
}

// showSignIn asks for a token.
func showSignIn(c *call) error {
	if c.SignIn == nil {
		return c.goTo(Prefix, "")
	}
	return c.render(http.StatusOK, "signin", "bare", page{Title: "Sign in", Body: signInBody{Next: local(c.field("next"))}})
}

// ErrRefused is an error of Config.SignIn that says for people why a token is not accepted.
var ErrRefused = errors.New("this token is not accepted")

func signIn(c *call) error {
	if c.SignIn == nil {
		return c.goTo(Prefix, "")
	}
	next, token := local(c.field("next")), c.field("token")
	if _, err := c.SignIn(c.r.Context(), c.r, token); err != nil {
		text, status := "The token cannot be checked for now. Try again.", http.StatusServiceUnavailable
		if errors.Is(err, ErrRefused) {
			text, status = "This token is not accepted. It may be mistyped, expired or revoked.", http.StatusUnauthorized
		}
		return c.render(status, "signin", "bare", page{Title: "Sign in", Body: signInBody{Next: next, Refused: text}})
	}
	c.Sessions.start(c.w, c.r, token)
	return c.goTo(next, "")
}

func signOut(c *call) error {
	c.Sessions.End(c.w, c.r)
	if c.SignIn == nil {
		return c.goTo(Prefix, "")
	}
	return c.goTo(Prefix+"signin", "")
}

// local returns a path of the console, whatever it is given: nobody is sent elsewhere.
func local(path string) string {
	if !strings.HasPrefix(path, Prefix) || strings.HasPrefix(path, Prefix+"sign") || strings.ContainsAny(path, "\\\r\n\x00") || strings.Contains(path, "//") {
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
		_ = templates()["signin"].ExecuteTemplate(w, "again", r.URL.RequestURI()) // fails only if the browser has gone
		return
	}
	if r.Header.Get("HX-Request") != "" { // a part of a page that is shown
		w.Header().Set("HX-Redirect", to)
		w.WriteHeader(http.StatusNoContent)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // to the page for signing in, whatever comes behind
}

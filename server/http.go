package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/web"
)

// serveHTTP serves on l until ctx ends, then waits for the calls in flight, unless the server is closed.
func serveHTTP(ctx context.Context, s *http.Server, l net.Listener) error {
	served := make(chan error, 1)
	go func() {
		if s.TLSConfig != nil {
			served <- s.ServeTLS(l, "", "")
			return
		}
		served <- s.Serve(l)
	}()
	select {
	case err := <-served:
		return unlessClosed(err)
	case <-ctx.Done():
	}
	_ = s.Shutdown(context.WithoutCancel(ctx)) // fails only if closing the listener does, which Serve reports
	return unlessClosed(<-served)
}

func unlessClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// strictTLS tells browsers that came over TLS not to come without it for a year.
func strictTLS(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if web.IsTLS(r) {
			w.Header().Set("Strict-Transport-Security", "max-age=31536000")
		}
		next.ServeHTTP(w, r)
	})
}

// loopbackOnly refuses what a web page could make a browser on this machine send. Without tokens the port
// trusts everybody on this machine, but not a page from elsewhere. Such a page may come under a name of its
// own that resolves to loopback (DNS rebinding), which shows in Host, or as a cross-origin call, which shows
// in Origin and Sec-Fetch-Site.
func loopbackOnly(next http.Handler) http.Handler {
	guarded := sameOrigin(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopbackHost(r.Host) {
			forbid(w, r, "refused: the server is for this machine only; call it as 127.0.0.1, ::1 or localhost")
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// sameOrigin refuses calls that web pages of other origins make a browser send, reading ones included: their
// answers are for no page, and cost as much as any.
func sameOrigin(next http.Handler) http.Handler {
	const text = "refused: a page of another site sent this call"
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { forbid(w, r, text) }))
	guarded := protection.Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" && !isNavigation(r) {
			forbid(w, r, text)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// forbid refuses a call; one of the plain HTTP API as all refusals there.
func forbid(w http.ResponseWriter, r *http.Request, text string) {
	if strings.HasPrefix(r.URL.Path, api.PlainPrefix) {
		api.StatusProblem(http.StatusForbidden, text).Write(w)
		return
	}
	http.Error(w, text, http.StatusForbidden)
}

func isLoopbackHost(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = hostPort
	}
	if len(host) > 1 && host[0] == '[' && host[len(host)-1] == ']' {
		host = host[1 : len(host)-1]
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

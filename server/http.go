package server

import (
	"context"
	"errors"
	"net"
	"net/http"
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

// loopbackOnly refuses what a web page could make a browser on this machine send. Without tokens the port
// trusts everybody on this machine, but not a page from elsewhere. Such a page may come under a name of its
// own that resolves to loopback (DNS rebinding), which shows in Host, or as a cross-origin call, which shows
// in Origin and Sec-Fetch-Site.
func loopbackOnly(next http.Handler) http.Handler {
	guarded := sameOrigin(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLoopbackHost(r.Host) {
			http.Error(w, "refused: the server is for this machine only; call it as 127.0.0.1, ::1 or localhost", http.StatusForbidden)
			return
		}
		guarded.ServeHTTP(w, r)
	})
}

// sameOrigin refuses calls that web pages of other origins make a browser send, reading ones included: their
// answers are for no page, and cost as much as any.
func sameOrigin(next http.Handler) http.Handler {
	guarded := http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if site := r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" && !isNavigation(r) {
			http.Error(w, "refused: a page of another site sent this call", http.StatusForbidden)
			return
		}
		guarded.ServeHTTP(w, r)
	})
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

package server

import (
	"net"
	"net/http"
)

// loopbackOnly refuses what a web page could make a browser on this machine send. Without tokens the port
// trusts whoever is on this machine; a page from elsewhere must not be taken for that. It could come with a
// name of its own that resolves to loopback (DNS rebinding), which shows in the Host, or as a cross-origin
// call, which shows in Origin and Sec-Fetch-Site.
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

// sameOrigin refuses what web pages of other origins make a browser send.
func sameOrigin(next http.Handler) http.Handler { return http.NewCrossOriginProtection().Handler(next) }

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

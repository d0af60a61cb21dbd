package web

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
)

// policy lets a page use what this server serves, and nothing inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'"

func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
	h.Set("Cache-Control", "no-store")
}

// send sends a body, zipped if the browser takes that and it is known or worth it.
func send(w http.ResponseWriter, r *http.Request, plain, zipped []byte) {
	const worth = 1400 // bytes that fit into one packet
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && len(plain) > worth {
		if zipped == nil {
			var b bytes.Buffer
			z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
			_, _ = z.Write(plain)
			_ = z.Close()
			zipped = b.Bytes()
		}
		w.Header().Set("Content-Encoding", "gzip")
		plain = zipped
	}
	_, _ = w.Write(plain) // fails only if the browser has gone
}

package node

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/tracing"
)

// Trusting lets every call do everything, as access.Anonymous. It is for tests, and for whoever has decided
// that a call needs no token.
func Trusting(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Caller{Identity: access.Anonymous(), From: r.RemoteAddr})))
	})
}

// needing refuses calls of which the caller has not the verb.
func (n *Node) needing(v access.Verb, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.guard.Read(r.Context(), r.URL.Path, v) != nil {
			say(w, http.StatusForbidden, access.From(r.Context()).Denied(v, "").Error())
			return
		}
		next.ServeHTTP(w, r)
	})
}

// requestIDHeader names a call in the log and in its answer.
const requestIDHeader = "X-Request-Id"

// requestIDMax bounds an id that the caller chose, in bytes.
const requestIDMax = 64

type requestIDKey struct{}

// withRequestID gives each call an id, its caller's if that is a short word.
func withRequestID(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get(requestIDHeader)
		if id == "" || len(id) > requestIDMax || strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' }) {
			var random [8]byte
			for i := range random {
				random[i] = byte(rand.Uint32()) //nolint:gosec // no secret
			}
			id = hex.EncodeToString(random[:])
		}
		w.Header().Set(requestIDHeader, id)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestIDKey{}, id)))
	})
}

// LogIDs returns the ids of a context's request and trace, for the log.
func LogIDs(ctx context.Context) (attrs []slog.Attr) {
	if id, is := ctx.Value(requestIDKey{}).(string); is {
		attrs = append(attrs, slog.String("request_id", id))
	}
	if id := tracing.TraceIDOf(ctx); id != "" {
		attrs = append(attrs, slog.String("trace_id", id))
	}
	return attrs
}

// withPlain serves the plain API beside everything else. It gets the path as it was sent, since a key may
// have any characters, and http.ServeMux redirects some.
func withPlain(plain, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, api.PlainPrefix) {
			plain.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// probe answers well, or 503 and a short reason; short, because probes need no token.
func probe(well, wrong func() string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if reason := wrong(); reason != "" {
			say(w, http.StatusServiceUnavailable, reason)
			return
		}
		say(w, http.StatusOK, well())
	}
}

func say(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text+"\n") //nolint:gosec // plain text
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(v)
}

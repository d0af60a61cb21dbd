package server

import (
	"context"
	"log/slog"
	"net/http"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/livefile"
	"github.com/kinesin-io/kinesin/internal/token"
)

// Reasons for a refusal, for the caller to read.
const (
	refusedNone    = "this call has no token"
	refusedForm    = "the Authorization header of this call is not of the form: Bearer TOKEN"
	refusedUnknown = "this server does not accept the token of this call: it belongs to another server, or was replaced"
)

const refusedAdvice = "; the server accepts the tokens in the file given with --auth-token-file: send one as 'Authorization: Bearer TOKEN' " +
	"(kinesin: --token-file or KINESIN_TOKEN_FILE, Go: sdk.WithTokenFile)"

// gate passes on calls with an accepted token, and probes, whose answers are no secret.
type gate struct {
	tokens  *livefile.Files[token.Set]
	writer  *connect.ErrorWriter
	refused *prometheus.CounterVec // reason
	next    http.Handler
}

func newGate(tokens *livefile.Files[token.Set], r prometheus.Registerer, next http.Handler) *gate {
	g := &gate{
		tokens: tokens, next: next, writer: connect.NewErrorWriter(api.HandlerOptions(api.Hooks{})...),
		refused: promauto.With(r).NewCounterVec(prometheus.CounterOpts{
			Name: "kinesin_unauthenticated_calls_total", Help: "Calls refused because they had no accepted token.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{"none", "form", "unknown"} {
		g.refused.WithLabelValues(reason)
	}
	return g
}

// isProbe reports whether a request needs no token.
func isProbe(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	switch r.URL.Path {
	case "/livez", "/readyz", "/healthz":
		return true
	}
	return false
}

// ServeHTTP passes the call on, or refuses it in the form of its protocol.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isProbe(r) {
		g.next.ServeHTTP(w, r)
		return
	}
	sent, present := token.Of(r.Header)
	switch {
	case !present:
		g.refuse(w, r, "none", refusedNone)
	case sent == "":
		g.refuse(w, r, "form", refusedForm)
	case !g.tokens.Get().Holds(sent):
		g.refuse(w, r, "unknown", refusedUnknown)
	default:
		g.next.ServeHTTP(w, r)
	}
}

func (g *gate) refuse(w http.ResponseWriter, r *http.Request, reason, text string) {
	g.refused.WithLabelValues(reason).Inc()
	w.Header().Set("WWW-Authenticate", "Bearer")
	err := api.Errorf(kinesinv1.Reason_REASON_UNAUTHENTICATED, "%s", text+refusedAdvice)
	if !g.writer.IsSupported(r) { // a browser, curl or Prometheus
		http.Error(w, err.Error(), http.StatusUnauthorized)
		return
	}
	_ = g.writer.Write(w, r, api.ToWire(err)) // fails only if the caller has gone
}

// openTokens reads the accepted tokens; nil if calls need none.
func (s *Server) openTokens(ctx context.Context) (*livefile.Files[token.Set], error) {
	if s.config.AuthTokenFile == "" {
		return nil, nil //nolint:nilnil // calls need none
	}
	return token.OpenSet(s.config.AuthTokenFile, clock.Real(), s.reread(ctx, "tokens"))
}

// reread logs the reload of files that changed while the server runs.
func (s *Server) reread(ctx context.Context, what string) func(error) {
	log, ctx := s.config.Log, context.WithoutCancel(ctx)
	return func(err error) {
		if err != nil {
			log.WarnContext(ctx, "reload failed; keeping the previous contents", slog.String("of", what), slog.Any("error", err))
			return
		}
		log.InfoContext(ctx, "reloaded a changed file", slog.String("of", what))
	}
}

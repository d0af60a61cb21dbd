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

// Why a call was refused, as its text goes on; whoever reads it is who made the call.
const (
	refusedNone    = "this call has no token"
	refusedForm    = "the Authorization header of this call is not of the form: Bearer TOKEN"
	refusedUnknown = "this server does not take the token of this call: it is another one's, or was replaced"
)

const refusedAdvice = "; the server takes the tokens of the file that it was given with --auth-token-file: send one as 'Authorization: Bearer TOKEN' " +
	"(kinesin: --token-file or KINESIN_TOKEN_FILE, Go: sdk.WithTokenFile)"

// gate lets calls with a token pass. Probes pass without one: what they answer is a word.
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
			Name: "kinesin_unauthenticated_calls_total", Help: "Calls that were refused for want of a token that is taken here.",
		}, []string{"reason"}),
	}
	for _, reason := range []string{"none", "form", "unknown"} {
		g.refused.WithLabelValues(reason)
	}
	return g
}

// isProbe names what answers without a token.
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

// ServeHTTP passes the call on or refuses it, in the words of its protocol.
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
	_ = g.writer.Write(w, r, api.ToWire(err)) // fails only where the caller has gone
}

// openTokens reads the tokens that calls need; nil where they need none.
func (s *Server) openTokens(ctx context.Context) (*livefile.Files[token.Set], error) {
	if s.config.AuthTokenFile == "" {
		return nil, nil //nolint:nilnil // none are asked for
	}
	return token.OpenSet(s.config.AuthTokenFile, clock.Real(), s.reread(ctx, "tokens"))
}

// reread logs what became of files that changed while the server runs.
func (s *Server) reread(ctx context.Context, what string) func(error) {
	log, ctx := s.config.Log, context.WithoutCancel(ctx)
	return func(err error) {
		if err != nil {
			log.WarnContext(ctx, "a changed file cannot be used, what was in it before holds", slog.String("of", what), slog.Any("error", err))
			return
		}
		log.InfoContext(ctx, "a changed file was read", slog.String("of", what))
	}
}

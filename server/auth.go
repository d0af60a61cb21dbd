package server

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/access/policy"
	"github.com/kinesin-io/kinesin/internal/access/tokens"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
	"github.com/kinesin-io/kinesin/internal/livefile"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/room"
	"github.com/kinesin-io/kinesin/internal/token"
	"github.com/kinesin-io/kinesin/web"
)

// identifyEvery is how often the identity of a call that goes on is looked up again, so that a token that was
// revoked, has expired or has other grants now ends it: within 5 s, with the age of what is known of tokens.
const identifyEvery = 2 * time.Second

// identifyFailuresMax is how often in a row that may fail before the call ends.
const identifyFailuresMax = 3

// Reasons for a refusal, for the caller to read.
const (
	refusedNone    = "this call has no token"
	refusedForm    = "the Authorization header of this call is not of the form: Bearer TOKEN"
	refusedShort   = "the token of this call is too short: no token of less than 32 characters is accepted, whatever the policy says"
	refusedUnknown = "this server does not accept the token of this call: it belongs to another server, or was replaced"
)

const refusedAdvice = "; send a token that the server accepts as 'Authorization: Bearer TOKEN' (kinesin: --token-file or " +
	"KINESIN_TOKEN_FILE, Go: sdk.WithTokenFile). It accepts those of --auth-token-file, of the identities of --policy, and those " +
	"that `kinesin token create` makes"

// labels of refusals in metrics.
const (
	becauseNone    = "none"
	becauseForm    = "form"
	becauseUnknown = "unknown"
	becauseExpired = "expired"
	becauseRevoked = "revoked"
	becauseJWT     = "jwt"
	becauseCert    = "certificate"
	becauseStore   = "unavailable"
)

// madeTokens finds the tokens that operators made.
type madeTokens interface {
	Find(ctx context.Context, secret string) (tokens.Token, error)
	FindHash(ctx context.Context, hash [sha256.Size]byte) (tokens.Token, error)
}

// credentials are the files that say whose calls are accepted. Both are nil on a server for this machine
// only, whose calls need no token.
type credentials struct {
	tokens *livefile.Files[token.Set]
	policy *livefile.Files[*policy.Policy]
}

func (c credentials) areAsked() bool { return c.tokens != nil || c.policy != nil }

// gate finds out whose a call is, and refuses those of nobody, except probes, whose answers are no secret. It
// decides nothing about what an identity may do.
type gate struct {
	credentials

	made     madeTokens
	verifier *policy.Verifier
	audit    *audit.Log // may be nil
	writer   *connect.ErrorWriter
	refused  *prometheus.CounterVec // reason
	guesses  *guesses
	console  *web.Console // whose browsers sign in; nil: none do
	next     *api.Bodies  // for who has shown who he is
	open     http.Handler // behind it, for everybody

	strangers *strangers
}

func newGate(c credentials, made madeTokens, log *audit.Log, m *node.Metrics, open http.Handler) *gate {
	g := &gate{
		credentials: c, made: made, verifier: policy.NewVerifier(clock.Real()), audit: log, next: api.BoundBodies(open), open: open, strangers: newStrangers(), guesses: newGuesses(clock.Real()),
		writer:  connect.NewErrorWriter(api.HandlerOptions(api.Hooks{})...),
		refused: m.Counters("kinesin_unauthenticated_calls_total", "Calls refused because they had no accepted token.", "reason"),
	}
	for _, reason := range []string{becauseNone, becauseForm, becauseUnknown, becauseExpired, becauseRevoked, becauseJWT, becauseCert, becauseStore} {
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

// refusalError is the error of a call of nobody.
type refusalError struct {
	because string // a label
	text    string
	name    string // of the identity whose token is no longer accepted; empty: unknown
}

// Error returns the text.
func (r *refusalError) Error() string { return r.text }

// ServeHTTP passes the call on with its identity, or refuses it in the form of its protocol.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isProbe(r) {
		g.strangers.serve(w, r, http.HandlerFunc(g.probe))
		return
	}
	if g.console != nil && web.Has(r.URL.Path) && !web.Needs(r.URL.Path) {
		g.strangers.serve(w, r, g.open)
		return
	}
	id, err := g.identify(r.Context(), r)
	if err != nil {
		g.strangers.serve(w, r, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if g.refusesByPage(r, err) {
				g.refusePage(w, r, err)
				return
			}
			g.refuse(w, r, err)
		}))
		return
	}
	connectionOf(r.Context()).know()
	ctx, stop := g.watch(r, id)
	defer stop()
	g.next.ServeHTTP(w, r.WithContext(access.With(ctx, access.Caller{Identity: id, From: r.RemoteAddr})))
}

// rooms returns what calls share.
func (g *gate) rooms() []*room.Room { return append(g.next.Rooms(), g.strangers.room) }

// probe answers whether the server lives and is ready, which it is not while calls find no room.
func (g *gate) probe(w http.ResponseWriter, r *http.Request) {
	if why := g.next.Full(); why != "" && r.URL.Path == "/readyz" {
		http.Error(w, "not ready: "+why, http.StatusServiceUnavailable)
		return
	}
	g.open.ServeHTTP(w, r)
}

// identify returns the identity of a call: that of its token if it has one, else that of its certificate.
func (g *gate) identify(ctx context.Context, r *http.Request) (access.Identity, error) {
	sent, present := token.Of(r.Header)
	if !present && g.console != nil && web.Has(r.URL.Path) { // a cookie opens the console and nothing else
		if id, found, err := g.bySession(ctx, r); found {
			return id, err
		}
	}
	switch {
	case present && sent == "":
		return access.Identity{}, &refusalError{because: becauseForm, text: refusedForm}
	case present:
		return g.byToken(ctx, sent)
	case g.policy != nil && r.TLS != nil && len(r.TLS.PeerCertificates) > 0:
		id, err := g.policy.Get().ByCertificate(r.TLS.PeerCertificates)
		if err != nil {
			return access.Identity{}, &refusalError{because: becauseCert, text: err.Error()}
		}
		return id, nil
	case g.areAsked():
		return access.Identity{}, &refusalError{because: becauseNone, text: refusedNone}
	}
	return access.Anonymous(), nil
}

// byToken returns the identity of a token, which may be a JWT. The policy has only the hash of a token, so
// that one which can be guessed is refused here.
func (g *gate) byToken(ctx context.Context, sent string) (access.Identity, error) {
	if len(sent) < token.CharsMin {
		return access.Identity{}, &refusalError{because: becauseForm, text: refusedShort}
	}
	if id, found := g.byFiles(sha256.Sum256([]byte(sent))); found {
		return id, nil
	}
	if g.policy != nil && policy.IsJWT(sent) {
		id, err := g.verifier.ByJWT(ctx, g.policy.Get(), sent)
		if errors.Is(err, policy.ErrJWT) {
			err = &refusalError{because: becauseJWT, text: err.Error()}
		}
		return id, err
	}
	made, err := g.made.Find(ctx, sent)
	return g.byMade(&made, err)
}

// byTokenHash returns the identity of a token that is no JWT, by its SHA-256.
func (g *gate) byTokenHash(ctx context.Context, hash [sha256.Size]byte) (access.Identity, error) {
	if id, found := g.byFiles(hash); found {
		return id, nil
	}
	made, err := g.made.FindHash(ctx, hash)
	return g.byMade(&made, err)
}

// byFiles looks for a token in the file of tokens and in the policy.
func (g *gate) byFiles(hash [sha256.Size]byte) (id access.Identity, found bool) {
	if g.tokens != nil && g.tokens.Get().HoldsHash(hash) {
		return access.Identity{Name: access.TokenFileName, Grants: access.All()}, true
	}
	if g.policy == nil {
		return id, false
	}
	return g.policy.Get().ByTokenHash(hash)
}

// byMade returns the identity of a token that operators made, unless it has ended.
func (g *gate) byMade(made *tokens.Token, err error) (access.Identity, error) {
	switch {
	case errors.Is(err, tokens.ErrUnknown):
		return access.Identity{}, &refusalError{because: becauseUnknown, text: refusedUnknown}
	case errors.Is(err, tokens.ErrExpired):
		return access.Identity{}, &refusalError{because: becauseExpired, text: err.Error(), name: made.Name}
	case errors.Is(err, tokens.ErrRevoked):
		return access.Identity{}, &refusalError{because: becauseRevoked, text: err.Error(), name: made.Name}
	case err == nil && g.policy != nil && g.policy.Get().Has(made.Name):
		return access.Identity{}, &refusalError{because: becauseUnknown, text: "the policy file defines another identity " + made.Name +
			"; a name exists once: revoke the token, or rename the identity in the file"}
	}
	return made.Identity, err
}

// watch ends the context of a call when its identity is no longer accepted, or has other grants. stop ends
// the watch.
func (g *gate) watch(r *http.Request, id access.Identity) (ctx context.Context, stop func()) {
	if id.Name == access.AnonymousName {
		return r.Context(), func() {}
	}
	ctx, end := context.WithCancelCause(r.Context())
	failures := 0
	var timer atomic.Pointer[time.Timer]
	timer.Store(time.AfterFunc(identifyEvery, func() {
		now, err := g.identify(ctx, r)
		if failures++; err == nil {
			failures = 0
		}
		var refused *refusalError
		switch {
		case ctx.Err() != nil:
			return
		case errors.As(err, &refused):
			end(unauthenticated(refused.text))
			return
		case failures >= identifyFailuresMax:
			end(api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the token of this call cannot be checked for now; call again"))
			return
		case err == nil && !now.Equal(id):
			end(api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "what %s may do has changed; call again", id.Name))
			return
		}
		timer.Load().Reset(identifyEvery)
	}))
	return ctx, func() {
		timer.Load().Stop()
		end(nil)
	}
}

func unauthenticated(text string) error {
	return api.Errorf(kinesinv1.Reason_REASON_UNAUTHENTICATED, "%s", text+refusedAdvice)
}

// refuse answers a call of nobody, and counts and records it. A store that does not answer is no refusal: the
// caller is to try again.
func (g *gate) refuse(w http.ResponseWriter, r *http.Request, cause error) {
	because, status, err := becauseStore, http.StatusServiceUnavailable,
		error(api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the token of this call cannot be checked for now; try again"))
	name := ""
	if refused, is := errors.AsType[*refusalError](cause); is {
		name = refused.name
		because, status, err = refused.because, http.StatusUnauthorized, unauthenticated(refused.text)
		w.Header().Set("WWW-Authenticate", "Bearer")
		if because != becauseNone {
			g.guesses.hold(w, r)
		}
	}
	g.noteRefusal(r, because, name)
	if strings.HasPrefix(r.URL.Path, api.PlainPrefix) {
		api.HTTPProblemOf(api.ProblemOf(err)).Write(w)
		return
	}
	if !g.writer.IsSupported(r) { // a browser, curl or Prometheus
		http.Error(w, err.Error(), status)
		return
	}
	_ = g.writer.Write(w, r, api.ToWire(err)) // fails only if the caller has gone
}

// noteRefusal counts and records a call of nobody.
func (g *gate) noteRefusal(r *http.Request, because, name string) {
	g.refused.WithLabelValues(because).Inc()
	if g.audit != nil {
		g.audit.NoteOften(audit.Record{Identity: name, From: access.Caller{From: r.RemoteAddr}.Host(), Action: "call", Target: r.URL.Path, Outcome: audit.Unauthenticated + ": " + because})
	}
}

// openCredentials reads the accepted tokens and the policy.
func (s *Server) openCredentials(ctx context.Context) (c credentials, err error) {
	if s.config.AuthTokenFile != "" {
		if c.tokens, err = token.OpenSet(s.config.AuthTokenFile, clock.Real(), s.reread(ctx, "tokens")); err != nil {
			return c, err
		}
	}
	if s.config.PolicyFile != "" {
		if c.policy, err = policy.Open(s.config.PolicyFile, clock.Real(), s.rereadPolicy(ctx)); err != nil {
			return c, err
		}
		if c.policy.Get().Roots() != nil && s.config.TLSCertFile == "" {
			return c, errors.New("the policy has identities with certificates, which need TLS: set --tls-cert-file and --tls-key-file")
		}
	}
	return c, nil
}

// rereadPolicy logs, counts and records the reload of the policy.
func (s *Server) rereadPolicy(ctx context.Context) func(error) {
	logged := s.reread(ctx, "policy")
	failures := s.metrics.Gauge("kinesin_policy_refused", "1 while the policy file is refused and the policy before it holds, else 0.")
	return func(err error) {
		logged(err)
		outcome := audit.OK
		failures.Set(0)
		if err != nil {
			outcome = audit.Failed + err.Error()
			failures.Set(1)
		}
		if s.node != nil && s.node.Audit() != nil {
			s.node.Audit().NoteOften(audit.Record{Identity: access.ServerName, From: "local", Action: "policy.reload", Target: s.config.PolicyFile, Outcome: outcome})
		}
	}
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

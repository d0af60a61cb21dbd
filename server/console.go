package server

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/access/policy"
	"github.com/kinesin-io/kinesin/internal/access/sessions"
	"github.com/kinesin-io/kinesin/internal/access/signin"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/web"
)

// actSignIn is a sign-in to the console, as it is in the audit log.
const actSignIn = "console.sign_in"

// openConsole makes the console; nil if it is off, or this process has not the role that serves users.
func (s *Server) openConsole() *web.Console {
	if s.config.NoConsole || !s.node.HasInbound() {
		return nil
	}
	of := s.node.Services()
	var backedUp func() (time.Time, time.Duration)
	if at := s.drivers.backedUp; at != nil {
		backedUp = func() (time.Time, time.Duration) {
			return *at.Load(), cmp.Or(s.config.BackupEvery, BackupEveryDefault)
		}
	}
	return web.New(web.Config{
		Services: web.Services{
			Tasks: of.Tasks, Jobs: of.Jobs, Gates: of.Gates, Crons: of.Crons, Lambdas: of.Lambdas, DeadLetters: of.DeadLetters,
			Quotas: of.Quotas, Inbound: of.Inbound, Access: of.Access, Chains: of.Chains, Groups: of.Groups, Objectives: of.Objectives,
		},
		Source: s.node, Clock: clock.Real(), Log: s.config.Log, Version: s.config.Version, ReadOnly: s.config.ConsoleReadOnly,
		ForecastRowsMax: s.config.ConsoleRowsMax, TraceURL: s.config.TraceURL,
		Sessions: s.node.Sessions(), BackedUp: backedUp,
		RedirectURL: s.config.ConsoleOIDC.RedirectURL,
	})
}

var _ web.Source = (*node.Node)(nil)

// withConsole serves the console beside everything else.
func withConsole(console *web.Console, next http.Handler) http.Handler {
	if console == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if web.Has(r.URL.Path) {
			console.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// useConsole lets browsers that are signed in to the console call as who they are.
func (g *gate) useConsole(console *web.Console, provider *signin.Flow) {
	if console == nil || !g.areAsked() {
		return
	}
	g.console = console
	console.SignIn = g.signIn
	if provider != nil {
		console.Provider = provided{g, provider}
	}
}

// signIn checks a token that somebody enters, and notes that he signed in. The console does not keep what he
// enters.
func (g *gate) signIn(w http.ResponseWriter, r *http.Request, token string) (proof sessions.Proof, err error) {
	var id access.Identity
	ctx := r.Context()
	if g.policy != nil && policy.IsJWT(token) {
		id, proof, err = g.proofOfJWT(ctx, token)
	} else {
		hash := sha256.Sum256([]byte(token))
		proof.Token = hash[:]
		id, err = g.byToken(ctx, token)
	}
	if refused, is := errors.AsType[*refusalError](err); is {
		g.noteRefusal(r, refused.because, refused.name)
		g.guesses.hold(w, r)
		return proof, fmt.Errorf("%w: %s", web.ErrRefused, refused.because)
	}
	if err == nil {
		g.noteSignIn(r, id)
	}
	return proof, err
}

// proofOfJWT checks a JWT, of which a session keeps what it says.
func (g *gate) proofOfJWT(ctx context.Context, text string) (id access.Identity, proof sessions.Proof, err error) {
	p := g.policy.Get()
	verified, err := g.verifier.Verify(ctx, p, text)
	if err == nil {
		proof = sessions.Proof{OIDC: &verified.Claims, Expires: verified.Expiry.Unix()}
		id, err = p.ByClaims(verified.Claims)
	}
	if errors.Is(err, policy.ErrJWT) || errors.Is(err, policy.ErrNobody) {
		err = &refusalError{because: becauseJWT, text: err.Error()}
	}
	return id, proof, err
}

func (g *gate) noteSignIn(r *http.Request, id access.Identity) {
	if g.audit != nil {
		g.audit.NoteOften(audit.Record{Identity: id.Name, From: access.Caller{From: r.RemoteAddr}.Host(), Action: actSignIn, Target: "console", Outcome: audit.OK})
	}
}

// bySession returns the identity of a browser that is signed in. found: it is, or was until now.
func (g *gate) bySession(ctx context.Context, r *http.Request) (id access.Identity, found bool, err error) {
	s, err := g.console.Session(r)
	switch {
	case errors.Is(err, sessions.ErrNone):
		return id, false, nil
	case err != nil:
		return id, true, err
	case s.OIDC == nil:
		id, err = g.byTokenHash(ctx, [sha256.Size]byte(s.Token))
		return id, true, err
	case g.policy == nil:
		return id, true, &refusalError{because: becauseJWT, text: "this server has no policy"}
	}
	if id, err = g.policy.Get().ByClaims(*s.OIDC); err != nil {
		err = &refusalError{because: becauseJWT, text: err.Error()}
	}
	return id, true, err
}

// provided is the page of a provider, as the console knows it.
type provided struct {
	gate *gate
	flow *signin.Flow
}

// Name implements web.Provider.
func (p provided) Name() string {
	if u, err := url.Parse(p.flow.Issuer); err == nil {
		return u.Host
	}
	return p.flow.Issuer
}

// Begin implements web.Provider.
func (p provided) Begin(ctx context.Context, redirect, next string) (to, kept string, err error) {
	to, kept, err = p.flow.Begin(ctx, redirect, next)
	return to, kept, refusedByPage(err)
}

// Finish implements web.Provider.
func (p provided) Finish(r *http.Request, kept string, query url.Values) (sessions.Proof, string, error) {
	proof, next, err := p.flow.Finish(r.Context(), kept, query)
	switch {
	case errors.Is(err, signin.ErrRefused):
		p.gate.noteRefusal(r, becauseJWT, "")
	case err == nil:
		if id, err := p.gate.policy.Get().ByClaims(*proof.OIDC); err == nil {
			p.gate.noteSignIn(r, id)
		}
	}
	return proof, next, refusedByPage(err)
}

// Refresh implements web.Provider.
func (p provided) Refresh(ctx context.Context, s *sessions.Session) (bool, error) {
	return p.flow.Refresh(ctx, s)
}

// refusedByPage makes an error for people one of the console.
func refusedByPage(err error) error {
	if errors.Is(err, signin.ErrRefused) {
		return fmt.Errorf("%w: %s", web.ErrRefused, strings.TrimPrefix(err.Error(), signin.ErrRefused.Error()+": "))
	}
	return err
}

// openProvider makes the sign-in at the page of a provider; nil if none is configured.
func (s *Server) openProvider(ctx context.Context, asked credentials) (*signin.Flow, error) {
	c := s.config.ConsoleOIDC
	if c.Issuer == "" || asked.policy == nil { // whose fault is reported already
		return nil, nil //nolint:nilnil // none is asked for
	}
	return signin.New(signin.Config{
		Issuer: c.Issuer, ClientID: c.ClientID, SecretFile: c.ClientSecretFile, Scopes: c.Scopes, Policy: asked.policy.Get,
		Clock: clock.Real(), Reread: s.reread(ctx, "secret of the OpenID Connect client"),
	})
}

// refusesByPage reports whether who asks for a page gets one that asks him to sign in, rather than an error.
func (g *gate) refusesByPage(r *http.Request, err error) bool {
	_, refused := errors.AsType[*refusalError](err)
	return refused && g.console != nil && web.Has(r.URL.Path)
}

// refusePage ends the session of a browser whose token is no longer accepted, and asks it to sign in. One
// that never was signed in is no refusal that anybody wants to read of.
func (g *gate) refusePage(w http.ResponseWriter, r *http.Request, err error) {
	if refused, is := errors.AsType[*refusalError](err); is && refused.because != becauseNone {
		g.noteRefusal(r, refused.because, refused.name)
		g.guesses.hold(w, r)
		_ = g.console.EndSession(w, r) // who has it is refused anyway
	}
	web.AskToSignIn(w, r)
}

// isNavigation reports whether somebody follows a link to the console: a page of another site may lead there,
// but neither reads the answer nor has it in a frame, and a request that changes something is never one.
func isNavigation(r *http.Request) bool {
	return r.Method == http.MethodGet && web.Has(r.URL.Path) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

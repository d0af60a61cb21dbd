package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/audit"
	"github.com/kinesin-io/kinesin/internal/clock"
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
	return web.New(web.Config{
		Services: web.Services{
			Tasks: of.Tasks, Jobs: of.Jobs, Gates: of.Gates, Crons: of.Crons, Lambdas: of.Lambdas, DeadLetters: of.DeadLetters,
			Quotas: of.Quotas, Inbound: of.Inbound, Access: of.Access, Chains: of.Chains, Groups: of.Groups, Objectives: of.Objectives,
		},
		Source: s.node, Clock: clock.Real(), Log: s.config.Log, Version: s.config.Version, ReadOnly: s.config.ConsoleReadOnly,
		ForecastRowsMax: s.config.ConsoleRowsMax, TraceURL: s.config.TraceURL,
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
func (g *gate) useConsole(console *web.Console) {
	if console == nil || !g.areAsked() {
		return
	}
	g.console = console
	console.SignIn = g.signIn
}

// signIn checks a token that somebody enters, and notes that he signed in.
func (g *gate) signIn(ctx context.Context, r *http.Request, token string) (access.Identity, error) {
	id, err := g.byToken(ctx, token)
	if refused, is := errors.AsType[*refusalError](err); is {
		g.noteRefusal(r, refused.because, refused.name)
		return id, fmt.Errorf("%w: %s", web.ErrRefused, refused.because)
	}
	if err == nil && g.audit != nil {
		g.audit.NoteOften(audit.Record{Identity: id.Name, From: access.Caller{From: r.RemoteAddr}.Host(), Action: actSignIn, Target: "console", Outcome: audit.OK})
	}
	return id, err
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
		g.console.Sessions.End(w, r)
	}
	web.AskToSignIn(w, r)
}

// isNavigation reports whether somebody follows a link to the console: a page of another site may lead there,
// but neither reads the answer nor has it in a frame, and a request that changes something is never one.
func isNavigation(r *http.Request) bool {
	return r.Method == http.MethodGet && web.Has(r.URL.Path) &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

package node

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/access/sessions"
	"github.com/kinesin-io/kinesin/internal/access/tokens"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
	"github.com/kinesin-io/kinesin/internal/guard"
	"github.com/kinesin-io/kinesin/task"
)

// newGuard makes what checks and records calls. It comes after the intake, which reads the ids of tasks.
func (n *Node) newGuard(c *Config) *guard.Guard {
	g := &guard.Guard{LambdaOf: n.intake.LambdaOf, WholeIDs: n.wholeIDs, Where: n.where}
	if c.Audit != nil {
		n.audit = audit.New(audit.Config{
			Rows: n.store, Clock: c.Clock, Log: c.Log, Chained: !c.shared, Pages: n.keyring.Pages(), Keep: c.Audit.Keep,
			Written: c.Audit.Written, Lost: func(acts int) { n.metrics.auditLost.Add(float64(acts)) },
		})
		g.Audit = n.audit
	}
	return g
}

// wholeIDs comes before the inbound role, which reads tasks.
func (n *Node) wholeIDs(ctx context.Context, ids []string) ([]string, error) {
	return n.inbound.WholeIDs(ctx, ids)
}

// where returns the lambdas of which a filter may select tasks.
func (n *Node) where(expression string) ([]string, error) {
	return inbound.Where(expression, n.clock.Now(), n.catalog.All())
}

// jobEnded records the end of a job as an act of whoever made it.
func (n *Node) jobEnded(ctx context.Context, j *kinesinv1.Job) {
	if n.audit == nil {
		return
	}
	outcome := audit.OK
	if j.GetProblem() != "" {
		outcome = audit.Failed + j.GetProblem()
	}
	after, _ := json.Marshal(map[string]any{"action": j.GetAction(), "state": j.GetState(), "outcomes": j.GetOutcomes()}) //nolint:errchkjson // of texts and numbers
	n.audit.Note(ctx, audit.Record{
		Identity: j.GetCreatedBy(), From: access.ServerName, Action: "job.end", Target: j.GetId(), Outcome: outcome, After: string(after),
	})
}

// callerOf returns the name of the identity that makes a call.
func callerOf(ctx context.Context) string { return access.From(ctx).Name }

// taken reports whether an identity of that name is defined elsewhere.
func (n *Node) taken(name string) bool {
	if n.defined == nil {
		return false
	}
	_, found := n.defined(name)
	return found
}

// grantsOf returns what an identity may do now. Calls that need no token, and the file of tokens, have all
// grants. Where identities may be defined that are not known here, somebody else may know an unknown one.
func (n *Node) grantsOf(ctx context.Context, name string) (access.Grants, error) {
	if name == access.AnonymousName || name == access.TokenFileName {
		return access.All(), nil
	}
	if n.defined != nil {
		if may, found := n.defined(name); found {
			return may, nil
		}
	}
	t, err := n.tokens.Named(ctx, name)
	switch {
	case err == nil:
		return t.Grants, nil
	case errors.Is(err, tokens.ErrExpired), errors.Is(err, tokens.ErrRevoked):
		return nil, api.Errorf(kinesinv1.Reason_REASON_PERMISSION_DENIED, "%v: %v", access.ErrDenied, err)
	case errors.Is(err, tokens.ErrUnknown) && n.defined != nil:
		return nil, api.Errorf(kinesinv1.Reason_REASON_PERMISSION_DENIED, "%v: there is no identity %s any more", access.ErrDenied, name)
	case errors.Is(err, tokens.ErrUnknown):
		return nil, api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "this server knows no identity %s: it has no policy", name)
	}
	return nil, err
}

// Tokens finds the identities of tokens that `kinesin token create` made.
func (n *Node) Tokens() *tokens.Registry { return n.tokens }

// Sessions are the browsers that are signed in to the console.
func (n *Node) Sessions() *sessions.Registry { return n.sessions }

// SessionSealer seals what browsers keep.
func (n *Node) SessionSealer() *task.SessionSealer { return n.keyring.Sessions() }

// Audit returns the audit log; nil if there is none.
func (n *Node) Audit() *audit.Log { return n.audit }

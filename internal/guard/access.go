package guard

import (
	"context"
	"errors"
	"math"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/access/tokens"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

const auditPageDefault, auditPageMax = 100, 1000

type accesses struct {
	*Guard

	tokens *tokens.Registry
	taken  func(name string) bool
}

// Access serves tokens and audit records. Each of its procedures needs admin on all lambdas. taken reports
// whether an identity of that name is defined elsewhere; it may be nil.
func (g *Guard) Access(registry *tokens.Registry, taken func(name string) bool) kinesinv1connect.AccessServiceHandler {
	return accesses{g, registry, taken}
}

// CreateToken makes a token with grants of which the caller has all.
func (s accesses) CreateToken(ctx context.Context, r *kinesinv1.CreateTokenRequest) (*kinesinv1.CreateTokenResponse, error) {
	a := s.onAll(ctx, "token.create", r.GetName(), access.Admin)
	return recordChange(ctx, s.Guard, a, s.createToken, r, (*kinesinv1.CreateTokenResponse).GetToken)
}

func (s accesses) createToken(ctx context.Context, r *kinesinv1.CreateTokenRequest) (*kinesinv1.CreateTokenResponse, error) {
	if err := access.CheckName(r.GetName()); err != nil {
		return nil, refusal.Invalid("%v", err)
	}
	grants, err := access.ParseGrants(r.GetGrants())
	if err != nil {
		return nil, refusal.Invalid("%v", err)
	}
	lifetime := task.Micros(r.GetLifetime())
	if lifetime != 0 && (lifetime < tokens.LifetimeMin || lifetime > tokens.LifetimeMax) {
		return nil, refusal.Invalid("lifetime %v: want %v to %v, or 0 for a token that does not expire", lifetime, tokens.LifetimeMin, tokens.LifetimeMax)
	}
	c := access.From(ctx)
	if missing, ok := c.Grants.Missing(grants); !ok {
		return nil, api.Errorf(kinesinv1.Reason_REASON_PERMISSION_DENIED, "%v: %s cannot grant %s, which it does not have itself", access.ErrDenied, c.Name, missing)
	}
	if s.taken != nil && s.taken(r.GetName()) {
		return nil, api.Errorf(kinesinv1.Reason_REASON_EXISTS, "the policy file defines an identity %s; a name exists once", r.GetName())
	}
	t, secret, err := s.tokens.Create(ctx, access.Identity{Name: r.GetName(), Grants: grants}, lifetime, c.Name)
	if err != nil {
		return nil, tokenProblem(err)
	}
	return &kinesinv1.CreateTokenResponse{Token: wireToken(&t), Secret: secret}, nil
}

// ListTokens lists the tokens of the registry.
func (s accesses) ListTokens(ctx context.Context, _ *kinesinv1.ListTokensRequest) (*kinesinv1.ListTokensResponse, error) {
	if err := s.allowAll(ctx, "token.list", "", access.Admin); err != nil {
		return nil, err
	}
	all, err := s.tokens.List(ctx)
	if err != nil {
		return nil, tokenProblem(err)
	}
	response := &kinesinv1.ListTokensResponse{}
	for i := range all {
		response.Tokens = append(response.Tokens, wireToken(&all[i]))
	}
	return response, nil
}

// RevokeToken ends a token.
func (s accesses) RevokeToken(ctx context.Context, r *kinesinv1.RevokeTokenRequest) (*kinesinv1.RevokeTokenResponse, error) {
	a := s.onAll(ctx, "token.revoke", r.GetName(), access.Admin)
	return recordChange(ctx, s.Guard, a, s.revokeToken, r, (*kinesinv1.RevokeTokenResponse).GetToken)
}

func (s accesses) revokeToken(ctx context.Context, r *kinesinv1.RevokeTokenRequest) (*kinesinv1.RevokeTokenResponse, error) {
	t, err := s.tokens.Revoke(ctx, r.GetName())
	if err != nil {
		return nil, tokenProblem(err)
	}
	return &kinesinv1.RevokeTokenResponse{Token: wireToken(&t)}, nil
}

func wireToken(t *tokens.Token) *kinesinv1.Token {
	return &kinesinv1.Token{
		Name: t.Name, Grants: t.Grants.Strings(), Created: int64(t.Created), Expires: int64(t.Expires),
		Revoked: int64(t.Revoked), CreatedBy: t.CreatedBy,
	}
}

func tokenProblem(err error) error {
	switch {
	case errors.Is(err, tokens.ErrExists):
		return api.Errorf(kinesinv1.Reason_REASON_EXISTS, "%v", err)
	case errors.Is(err, tokens.ErrUnknown):
		return api.Errorf(kinesinv1.Reason_REASON_NOT_FOUND, "%v", err)
	}
	return refusal.Wire(err)
}

// ListAudit returns a page of records.
func (s accesses) ListAudit(ctx context.Context, r *kinesinv1.ListAuditRequest) (*kinesinv1.ListAuditResponse, error) {
	if err := s.allowAll(ctx, "audit.read", "", access.Admin); err != nil {
		return nil, err
	}
	if s.Audit == nil {
		return nil, errNoAudit
	}
	limit := int(r.GetLimit())
	if limit == 0 {
		limit = auditPageDefault
	}
	if limit < 1 || limit > auditPageMax {
		return nil, refusal.Invalid("limit %d: want 1 to %d", limit, auditPageMax)
	}
	until := task.Instant(r.GetUntil())
	if until == 0 {
		until = math.MaxInt64
	}
	list := s.Audit.List
	if r.GetNewestFirst() {
		list = s.Audit.ListNewest
	}
	records, next, err := list(ctx, task.Instant(r.GetSince()), until, r.GetAfter(), limit)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	response := &kinesinv1.ListAuditResponse{Next: next}
	for i := range records {
		response.Records = append(response.Records, wireRecord(&records[i]))
	}
	return response, nil
}

var errNoAudit = api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED, "this server keeps no audit records")

func wireRecord(r *audit.Record) *kinesinv1.AuditRecord {
	return &kinesinv1.AuditRecord{
		At: int64(r.At), Identity: r.Identity, From: r.From, Action: r.Action, Target: r.Target, Outcome: r.Outcome,
		Before: r.Before, After: r.After, Count: r.Count, Seq: r.Seq, Hash: r.Hash,
	}
}

// VerifyAudit checks the chain of records.
func (s accesses) VerifyAudit(ctx context.Context, _ *kinesinv1.VerifyAuditRequest) (*kinesinv1.VerifyAuditResponse, error) {
	if err := s.allowAll(ctx, "audit.verify", "", access.Admin); err != nil {
		return nil, err
	}
	if s.Audit == nil {
		return nil, errNoAudit
	}
	v, err := s.Audit.Verify(ctx)
	if errors.Is(err, audit.ErrNotChained) {
		return nil, api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED, "%v", err)
	}
	if err != nil {
		return nil, refusal.Wire(err)
	}
	return &kinesinv1.VerifyAuditResponse{Records: v.Records, FirstSeq: v.First, LastSeq: v.Last, Head: v.Head, Problem: v.Problem}, nil
}

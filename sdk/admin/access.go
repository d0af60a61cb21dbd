package admin

import (
	"context"
	"iter"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
)

// Token belongs to an identity, which may do what its grants say.
type Token struct {
	Name      string   // of its identity
	Grants    []string // VERB:LAMBDA-PATTERN or VERB:LAMBDA-PATTERN:COLLECTION-PATTERN; docs/how-to/access.md
	Created   time.Time
	CreatedBy string    // an identity
	Expires   time.Time // zero: never
	Revoked   time.Time // zero: it is not
}

// Tokens has the calls about tokens.
type Tokens struct{ c *calls }

// TokenCreateOptions are the options of Tokens.Create.
type TokenCreateOptions struct {
	Lifetime time.Duration // zero: it does not expire
}

// Create creates a token with 1 to 64 grants, of those that the caller has, and returns it with its secret, which
// callers send as bearer token (sdk.WithTokenFile). Servers do not keep the secret.
func (s Tokens) Create(ctx context.Context, name string, grants []string, o TokenCreateOptions) (created Token, secret string, err error) {
	request := wirecopy.To[kinesinv1.CreateTokenRequest](&o)
	request.Name, request.Grants = name, grants
	r, err := call(ctx, s.c, "create token", s.c.Access.CreateToken, request)
	return wirecopy.From[Token](r.GetToken()), r.GetSecret(), err
}

// List returns all tokens.
func (s Tokens) List(ctx context.Context) ([]Token, error) {
	r, err := call(ctx, s.c, "list tokens", s.c.Access.ListTokens, &kinesinv1.ListTokensRequest{})
	return wirecopy.All[Token](r.GetTokens()), err
}

// Revoke ends a token for good. It returns ErrNotFound when there is none of that name.
func (s Tokens) Revoke(ctx context.Context, name string) (Token, error) {
	r, err := call(ctx, s.c, "revoke token", s.c.Access.RevokeToken, &kinesinv1.RevokeTokenRequest{Name: name})
	return wirecopy.From[Token](r.GetToken()), err
}

// AuditRecord says who did what.
type AuditRecord struct {
	At            time.Time
	Identity      string
	From          string // network address
	Action        string // such as lambda.update
	Target        string // the name of what was acted on
	Outcome       string // ok, denied, unauthenticated, or failed, with a reason
	Before, After string // of a change, in JSON; empty: does not apply
	Count         int    // how many such acts the record stands for
	Seq           uint64 // in the chain of an embedded store; 0: not chained
	Hash          []byte // of this record and the hash of the one before
}

// Audit has the calls about the records of what was done.
type Audit struct{ c *calls }

// AuditListOptions are the options of Audit.List.
type AuditListOptions struct {
	Since, Until time.Time // zero: as far as records are kept, and now
	NewestFirst  bool
}

const auditPerPage = 1000

// List returns records, oldest first, page by page as the loop goes on. An error ends it.
func (s Audit) List(ctx context.Context, o AuditListOptions) iter.Seq2[AuditRecord, error] {
	return func(yield func(AuditRecord, error) bool) {
		request := wirecopy.To[kinesinv1.ListAuditRequest](&o)
		request.Limit = auditPerPage
		for {
			r, err := call(ctx, s.c, "list audit", s.c.Access.ListAudit, request)
			if err != nil {
				yield(AuditRecord{}, err)
				return
			}
			for _, record := range r.GetRecords() {
				if !yield(wirecopy.From[AuditRecord](record), nil) {
					return
				}
			}
			if request.After = r.GetNext(); request.After == "" {
				return
			}
		}
	}
}

// AuditCheck is what a check of the chain of records found.
type AuditCheck struct {
	Records           int64  // that were checked
	FirstSeq, LastSeq uint64 // in the chain
	Head              []byte // hash of the last record
	Problem           string // the first place where the chain is broken; empty: none
}

// Verify checks the chain of the records that an embedded store keeps.
func (s Audit) Verify(ctx context.Context) (AuditCheck, error) {
	r, err := callSet(ctx, s.c, "verify audit", s.c.Access.VerifyAudit, &kinesinv1.VerifyAuditRequest{})
	return wirecopy.From[AuditCheck](r), err
}

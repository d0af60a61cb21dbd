package guard

import (
	"context"
	"strings"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/audit"
)

// Actions of operators, as they are in the audit log.
const (
	actExecute        = "worker.execute"
	actForeign        = "worker.lease" // of the worker of another identity
	actReadPath       = "read"
	actListRejected   = "inbound.rejected.list"
	actReadRejected   = "inbound.rejected.read"
	actRetryRejected  = "inbound.rejected.retry"
	actDeleteRejected = "inbound.rejected.delete"
	actInboundKey     = "inbound.key.read"
	actBackup         = "backup"
)

// Execute refuses a worker that may not run the tasks of a lambda; without one, of any lambda. The
// WorkerService asks it for each lambda that a call names, since it alone reads the messages of a stream.
func (g *Guard) Execute(ctx context.Context, lambda string) error {
	c := access.From(ctx)
	if allowed := c.Grants.Have(access.Execute); lambda == "" && !allowed {
		return g.deny(c, actExecute, access.Execute, "")
	} else if lambda == "" {
		return nil
	}
	return g.allow(ctx, actExecute, access.Execute, lambda)
}

type rejected struct {
	*Guard

	next kinesinv1connect.InboundServiceHandler
}

// Inbound guards an InboundService. A rejected message may be of any lambda, so its verbs are needed on all.
func (g *Guard) Inbound(next kinesinv1connect.InboundServiceHandler) kinesinv1connect.InboundServiceHandler {
	return rejected{g, next}
}

// ListRejected needs operate.
func (s rejected) ListRejected(ctx context.Context, r *kinesinv1.ListRejectedRequest) (*kinesinv1.ListRejectedResponse, error) {
	if err := s.allowAll(ctx, actListRejected, access.Operate); err != nil {
		return nil, err
	}
	return s.next.ListRejected(ctx, r)
}

// GetRejected needs operate, and read-payload because the response has the payload.
func (s rejected) GetRejected(ctx context.Context, r *kinesinv1.GetRejectedRequest) (*kinesinv1.GetRejectedResponse, error) {
	if err := s.allowAllOf(ctx, actReadRejected, r.GetName(), access.Operate, access.ReadPayload); err != nil {
		return nil, err
	}
	response, err := s.next.GetRejected(ctx, r)
	s.note(ctx, audit.Record{Action: actReadRejected, Target: r.GetName()}, err)
	return response, err
}

// RetryRejected needs operate.
func (s rejected) RetryRejected(ctx context.Context, r *kinesinv1.RetryRejectedRequest) (*kinesinv1.RetryRejectedResponse, error) {
	if err := s.allowAll(ctx, actRetryRejected, access.Operate); err != nil {
		return nil, err
	}
	response, err := s.next.RetryRejected(ctx, r)
	s.note(ctx, audit.Record{Action: actRetryRejected, Target: strings.Join(r.GetNames(), " "), Count: uint32(len(r.GetNames()))}, err)
	return response, err
}

// DeleteRejected needs operate.
func (s rejected) DeleteRejected(ctx context.Context, r *kinesinv1.DeleteRejectedRequest) (*kinesinv1.DeleteRejectedResponse, error) {
	if err := s.allowAll(ctx, actDeleteRejected, access.Operate); err != nil {
		return nil, err
	}
	response, err := s.next.DeleteRejected(ctx, r)
	s.note(ctx, audit.Record{Action: actDeleteRejected, Target: strings.Join(r.GetNames(), " "), Count: uint32(len(r.GetNames()))}, err)
	return response, err
}

// Key needs keyring: who has the key can schedule tasks for every lambda.
func (s rejected) Key(ctx context.Context, r *kinesinv1.KeyRequest) (*kinesinv1.KeyResponse, error) {
	if err := s.allowAll(ctx, actInboundKey, access.Keyring); err != nil {
		return nil, err
	}
	response, err := s.next.Key(ctx, r)
	s.note(ctx, audit.Record{Action: actInboundKey, Target: "inbound key"}, err)
	return response, err
}

type backups struct {
	*Guard

	next kinesinv1connect.BackupServiceHandler
}

// Backups guards a BackupService.
func (g *Guard) Backups(next kinesinv1connect.BackupServiceHandler) kinesinv1connect.BackupServiceHandler {
	return backups{g, next}
}

// Backup needs admin, read-payload and keyring, since a backup has all that the store has.
func (s backups) Backup(ctx context.Context, r *kinesinv1.BackupRequest, to *connect.ServerStream[kinesinv1.BackupResponse]) error {
	if err := s.allowAll(ctx, actBackup, access.Admin, access.ReadPayload, access.Keyring); err != nil {
		return err
	}
	err := s.next.Backup(ctx, r, to)
	s.note(ctx, audit.Record{Action: actBackup, Target: "store"}, err)
	return err
}

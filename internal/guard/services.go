package guard

import (
	"context"
	"strings"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
)

// Execute refuses a worker that may not run the tasks of a lambda; without one, of any lambda. The
// WorkerService asks it for each lambda that a call names, since it alone reads the messages of a stream.
func (g *Guard) Execute(ctx context.Context, lambda string) error {
	c := access.From(ctx)
	if allowed := c.Grants.Have(access.Execute); lambda == "" && !allowed {
		return g.deny(c, "worker.execute", access.Execute, "")
	} else if lambda == "" {
		return nil
	}
	return g.allow(ctx, "worker.execute", access.Execute, lambda)
}

type rejected service[kinesinv1connect.InboundServiceHandler]

// Inbound guards an InboundService. A rejected message may be of any lambda, so its verbs are needed on all.
func (g *Guard) Inbound(next kinesinv1connect.InboundServiceHandler) kinesinv1connect.InboundServiceHandler {
	return rejected{Guard: g, next: next}
}

func (s rejected) ListRejected(ctx context.Context, r *kinesinv1.ListRejectedRequest) (*kinesinv1.ListRejectedResponse, error) {
	return invoke(ctx, s.allowAll(ctx, "inbound.rejected.list", "", access.Operate), s.next.ListRejected, r)
}

// GetRejected needs operate, and read-payload because the response has the payload.
func (s rejected) GetRejected(ctx context.Context, r *kinesinv1.GetRejectedRequest) (*kinesinv1.GetRejectedResponse, error) {
	a := s.onAll(ctx, "inbound.rejected.read", r.GetName(), access.Operate, access.ReadPayload)
	return record(ctx, s.Guard, a, s.next.GetRejected, r)
}

func (s rejected) RetryRejected(ctx context.Context, r *kinesinv1.RetryRejectedRequest) (*kinesinv1.RetryRejectedResponse, error) {
	return record(ctx, s.Guard, s.onRejected(ctx, "inbound.rejected.retry", r.GetNames()), s.next.RetryRejected, r)
}

func (s rejected) DeleteRejected(ctx context.Context, r *kinesinv1.DeleteRejectedRequest) (*kinesinv1.DeleteRejectedResponse, error) {
	return record(ctx, s.Guard, s.onRejected(ctx, "inbound.rejected.delete", r.GetNames()), s.next.DeleteRejected, r)
}

func (s rejected) onRejected(ctx context.Context, action string, names []string) act {
	a := s.onAll(ctx, action, "", access.Operate).as(strings.Join(names, " "))
	a.Count = uint32(len(names))
	return a
}

// Key needs keyring: who has the key can schedule tasks for every lambda.
func (s rejected) Key(ctx context.Context, r *kinesinv1.KeyRequest) (*kinesinv1.KeyResponse, error) {
	return record(ctx, s.Guard, s.onAll(ctx, "inbound.key.read", "", access.Keyring).as("inbound key"), s.next.Key, r)
}

type backups service[kinesinv1connect.BackupServiceHandler]

// Backups guards a BackupService.
func (g *Guard) Backups(next kinesinv1connect.BackupServiceHandler) kinesinv1connect.BackupServiceHandler {
	return backups{Guard: g, next: next}
}

// Backup needs admin, read-payload and keyring, since a backup has all that the store has.
func (s backups) Backup(ctx context.Context, r *kinesinv1.BackupRequest, to *connect.ServerStream[kinesinv1.BackupResponse]) error {
	a := s.onAll(ctx, "backup", "", access.Admin, access.ReadPayload, access.Keyring).as("store")
	if a.refused != nil {
		return a.refused
	}
	err := s.next.Backup(ctx, r, to)
	s.note(ctx, a.Record, err)
	return err
}

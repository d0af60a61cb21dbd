package guard

import (
	"context"
	"slices"
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

type keyrings service[kinesinv1connect.KeyringServiceHandler]

// Keyring guards a KeyringService. Each of its procedures needs keyring.
func (g *Guard) Keyring(next kinesinv1connect.KeyringServiceHandler) kinesinv1connect.KeyringServiceHandler {
	return keyrings{Guard: g, next: next}
}

func (s keyrings) RotateKeys(ctx context.Context, r *kinesinv1.RotateKeysRequest) (*kinesinv1.RotateKeysResponse, error) {
	a := s.onAll(ctx, "keyring.rotate", "", access.Keyring).as("key ring")
	return recordChange(ctx, s.Guard, a, s.next.RotateKeys, r, func(keys *kinesinv1.RotateKeysResponse) *kinesinv1.RotateKeysResponse { return keys })
}

func (s keyrings) ListKeys(ctx context.Context, r *kinesinv1.ListKeysRequest) (*kinesinv1.ListKeysResponse, error) {
	return invoke(ctx, s.allowAll(ctx, "keyring.list", "", access.Keyring), s.next.ListKeys, r)
}

func (s keyrings) AddSender(ctx context.Context, r *kinesinv1.AddSenderRequest) (*kinesinv1.AddSenderResponse, error) {
	a := s.onAll(ctx, "inbound.sender.add", r.GetName(), access.Keyring)
	return recordChange(ctx, s.Guard, a, s.next.AddSender, r, (*kinesinv1.AddSenderResponse).GetSender)
}

func (s keyrings) ListSenders(ctx context.Context, r *kinesinv1.ListSendersRequest) (*kinesinv1.ListSendersResponse, error) {
	return invoke(ctx, s.allowAll(ctx, "inbound.sender.list", "", access.Keyring), s.next.ListSenders, r)
}

func (s keyrings) RevokeSender(ctx context.Context, r *kinesinv1.RevokeSenderRequest) (*kinesinv1.RevokeSenderResponse, error) {
	a := s.onAll(ctx, "inbound.sender.revoke", r.GetName(), access.Keyring)
	return recordChange(ctx, s.Guard, a, s.next.RevokeSender, r, (*kinesinv1.RevokeSenderResponse).GetSender)
}

type objectives service[kinesinv1connect.ObjectiveServiceHandler]

// Objectives guards an ObjectiveService.
func (g *Guard) Objectives(next kinesinv1connect.ObjectiveServiceHandler) kinesinv1connect.ObjectiveServiceHandler {
	return objectives{Guard: g, next: next}
}

func (s objectives) SetObjective(ctx context.Context, r *kinesinv1.SetObjectiveRequest) (*kinesinv1.SetObjectiveResponse, error) {
	a := s.onLambda(ctx, "objective.set", access.Operate, r.GetLambda())
	return recordChange(ctx, s.Guard, a, s.next.SetObjective, r, (*kinesinv1.SetObjectiveResponse).GetObjective)
}

func (s objectives) DeleteObjective(ctx context.Context, r *kinesinv1.DeleteObjectiveRequest) (*kinesinv1.DeleteObjectiveResponse, error) {
	return record(ctx, s.Guard, s.onLambda(ctx, "objective.delete", access.Operate, r.GetLambda()), s.next.DeleteObjective, r)
}

// GetObjectives needs read on the lambda that the request names, in all its collections, as the counts of
// starts are of all of them. Without a lambda it leaves out those that the caller may not read whole.
func (s objectives) GetObjectives(ctx context.Context, r *kinesinv1.GetObjectivesRequest) (*kinesinv1.GetObjectivesResponse, error) {
	if r.GetLambda() != "" {
		return invoke(ctx, s.allow(ctx, "objective.read", access.Read, r.GetLambda()), s.next.GetObjectives, r)
	}
	response, err := s.next.GetObjectives(ctx, r)
	if err != nil {
		return nil, err
	}
	by := access.From(ctx).Grants
	response.Objectives = slices.DeleteFunc(response.Objectives, func(o *kinesinv1.ObjectiveStatus) bool {
		return !by.Allow(access.Read, o.GetObjective().GetLambda())
	})
	return response, nil
}

type quotas service[kinesinv1connect.QuotaServiceHandler]

// Quotas guards a QuotaService.
func (g *Guard) Quotas(next kinesinv1connect.QuotaServiceHandler) kinesinv1connect.QuotaServiceHandler {
	return quotas{Guard: g, next: next}
}

func (s quotas) SetQuota(ctx context.Context, r *kinesinv1.SetQuotaRequest) (*kinesinv1.SetQuotaResponse, error) {
	a := s.onLambda(ctx, "quota.set", access.Operate, r.GetLambda()).was(ctx, s.current)
	return recordChange(ctx, s.Guard, a, s.next.SetQuota, r, (*kinesinv1.SetQuotaResponse).GetQuota)
}

// current returns the quotas of a lambda as they are; empty if there are none, or nothing is recorded.
func (s quotas) current(ctx context.Context, lambda string) string {
	if s.Audit == nil {
		return ""
	}
	response, _ := s.next.GetQuotas(ctx, &kinesinv1.GetQuotasRequest{Lambda: lambda}) // the change itself says what is wrong
	return s.settings(response)
}

// GetQuotas needs read on the lambda that the request names, in one of its collections at least. Without a
// lambda it leaves out those that the caller may not read.
func (s quotas) GetQuotas(ctx context.Context, r *kinesinv1.GetQuotasRequest) (*kinesinv1.GetQuotasResponse, error) {
	if r.GetLambda() != "" {
		return invoke(ctx, s.allowSome(ctx, "quota.read", access.Read, r.GetLambda()), s.next.GetQuotas, r)
	}
	response, err := s.next.GetQuotas(ctx, r)
	if err != nil {
		return nil, err
	}
	by := access.From(ctx).Grants
	response.Quotas = slices.DeleteFunc(response.Quotas, func(q *kinesinv1.Quota) bool { return !by.AllowSome(access.Read, q.GetLambda()) })
	return response, nil
}

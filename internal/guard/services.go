package guard

import (
	"context"
	"slices"
	"strings"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/feature/audit"
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

type lambdas service[kinesinv1connect.LambdaServiceHandler]

// Lambdas guards a LambdaService.
func (g *Guard) Lambdas(next kinesinv1connect.LambdaServiceHandler) kinesinv1connect.LambdaServiceHandler {
	return lambdas{Guard: g, next: next}
}

func (s lambdas) CreateLambda(ctx context.Context, r *kinesinv1.CreateLambdaRequest) (*kinesinv1.CreateLambdaResponse, error) {
	a := s.onLambda(ctx, "lambda.create", access.Admin, r.GetLambda().GetName())
	return recordChange(ctx, s.Guard, a, s.next.CreateLambda, r, (*kinesinv1.CreateLambdaResponse).GetLambda)
}

// GetLambda needs read on the lambda, in one of its collections at least.
func (s lambdas) GetLambda(ctx context.Context, r *kinesinv1.GetLambdaRequest) (*kinesinv1.GetLambdaResponse, error) {
	return invoke(ctx, s.allowSome(ctx, "lambda.read", access.Read, r.GetName()), s.next.GetLambda, r)
}

// ListLambdas leaves out the lambdas that the caller may not read.
func (s lambdas) ListLambdas(ctx context.Context, r *kinesinv1.ListLambdasRequest) (*kinesinv1.ListLambdasResponse, error) {
	response, err := s.next.ListLambdas(ctx, r)
	if err != nil {
		return nil, err
	}
	by := access.From(ctx).Grants
	response.Lambdas = slices.DeleteFunc(response.Lambdas, func(l *kinesinv1.Lambda) bool { return !by.AllowSome(access.Read, l.GetName()) })
	return response, nil
}

func (s lambdas) UpdateLambda(ctx context.Context, r *kinesinv1.UpdateLambdaRequest) (*kinesinv1.UpdateLambdaResponse, error) {
	a := s.onLambda(ctx, "lambda.update", access.Admin, r.GetLambda().GetName()).was(ctx, s.current)
	return recordChange(ctx, s.Guard, a, s.next.UpdateLambda, r, (*kinesinv1.UpdateLambdaResponse).GetLambda)
}

// DeleteLambda needs admin on the lambda. Of a deletion that takes several calls each is recorded that
// dropped tasks, and the last.
func (s lambdas) DeleteLambda(ctx context.Context, r *kinesinv1.DeleteLambdaRequest) (*kinesinv1.DeleteLambdaResponse, error) {
	a := s.onLambda(ctx, "lambda.delete", access.Admin, r.GetName()).was(ctx, s.current)
	response, err := invoke(ctx, a.refused, s.next.DeleteLambda, r)
	if a.refused == nil && (err != nil || !response.GetMore() || response.GetDropped() > 0) {
		a.After = s.settings(response)
		s.note(ctx, a.Record, err)
	}
	return response, err
}

// current returns the settings of a lambda; empty if there is none, or nothing is recorded.
func (s lambdas) current(ctx context.Context, name string) string {
	if s.Audit == nil {
		return ""
	}
	response, _ := s.next.GetLambda(ctx, &kinesinv1.GetLambdaRequest{Name: name}) // the change itself says what is wrong
	return s.settings(response.GetLambda())
}

// Actions on dead letters, as they are in the audit log.
const (
	actReadDeadLetters    = "deadletter.read"
	actPayloadDeadLetters = "deadletter.read_payload"
)

type deadLetters service[kinesinv1connect.DeadLetterServiceHandler]

// DeadLetters guards a DeadLetterService. A message does not tell its collection, so its verbs are needed on
// all of the lambda.
func (g *Guard) DeadLetters(next kinesinv1connect.DeadLetterServiceHandler) kinesinv1connect.DeadLetterServiceHandler {
	return deadLetters{Guard: g, next: next}
}

// ListDeadLetters needs read on the lambda, and read-payload for payloads, which is recorded.
func (s deadLetters) ListDeadLetters(ctx context.Context, r *kinesinv1.ListDeadLettersRequest) (*kinesinv1.ListDeadLettersResponse, error) {
	if err := s.allow(ctx, actReadDeadLetters, access.Read, r.GetLambda()); err != nil {
		return nil, err
	}
	if !r.GetPayload() {
		return s.next.ListDeadLetters(ctx, r)
	}
	if err := s.allow(ctx, actPayloadDeadLetters, access.ReadPayload, r.GetLambda()); err != nil {
		return nil, err
	}
	response, err := s.next.ListDeadLetters(ctx, r)
	if n := len(response.GetMessages()); n > 0 {
		s.noteOften(access.From(ctx), audit.Record{Action: actPayloadDeadLetters, Target: r.GetLambda(), Outcome: audit.OK, Count: uint32(n)})
	}
	return response, err
}

func (s deadLetters) CountDeadLetters(ctx context.Context, r *kinesinv1.CountDeadLettersRequest) (*kinesinv1.CountDeadLettersResponse, error) {
	return invoke(ctx, s.allow(ctx, actReadDeadLetters, access.Read, r.GetLambda()), s.next.CountDeadLetters, r)
}

// ChangeDeadLetters needs operate on the lambda. Each call is recorded that began a change, changed something
// or failed.
func (s deadLetters) ChangeDeadLetters(ctx context.Context, r *kinesinv1.ChangeDeadLettersRequest) (*kinesinv1.ChangeDeadLettersResponse, error) {
	action := "deadletter.change" // there is no such change
	switch r.GetAction() {
	case "redrive", "delete":
		action = "deadletter." + r.GetAction()
	}
	a := s.onLambda(ctx, action, access.Operate, r.GetLambda())
	response, err := invoke(ctx, a.refused, s.next.ChangeDeadLetters, r)
	if n := count(response.GetOutcomes()); a.refused == nil && (err != nil || n > 0 || r.GetBegan() == 0) {
		a.Count, a.After = uint32(n), s.settings(response)
		s.note(ctx, a.Record, err)
	}
	return response, err
}

func count(outcomes map[string]int64) (n int64) {
	for _, k := range outcomes {
		n += k
	}
	return n
}

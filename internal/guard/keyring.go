package guard

import (
	"context"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/audit"
)

// Actions on keys and senders, as they are in the audit log.
const (
	actRotateKeys   = "keyring.rotate"
	actListKeys     = "keyring.list"
	actAddSender    = "inbound.sender.add"
	actListSenders  = "inbound.sender.list"
	actRevokeSender = "inbound.sender.revoke"
)

type keyrings struct {
	*Guard

	next kinesinv1connect.KeyringServiceHandler
}

// Keyring guards a KeyringService. Each of its procedures needs keyring.
func (g *Guard) Keyring(next kinesinv1connect.KeyringServiceHandler) kinesinv1connect.KeyringServiceHandler {
	return keyrings{g, next}
}

// RotateKeys needs keyring.
func (s keyrings) RotateKeys(ctx context.Context, r *kinesinv1.RotateKeysRequest) (*kinesinv1.RotateKeysResponse, error) {
	if err := s.allowAll(ctx, actRotateKeys, access.Keyring); err != nil {
		return nil, err
	}
	response, err := s.next.RotateKeys(ctx, r)
	s.note(ctx, audit.Record{Action: actRotateKeys, Target: "key ring", After: s.settings(response)}, err)
	return response, err
}

// ListKeys needs keyring.
func (s keyrings) ListKeys(ctx context.Context, r *kinesinv1.ListKeysRequest) (*kinesinv1.ListKeysResponse, error) {
	if err := s.allowAll(ctx, actListKeys, access.Keyring); err != nil {
		return nil, err
	}
	return s.next.ListKeys(ctx, r)
}

// AddSender needs keyring.
func (s keyrings) AddSender(ctx context.Context, r *kinesinv1.AddSenderRequest) (*kinesinv1.AddSenderResponse, error) {
	if err := s.allowAllOf(ctx, actAddSender, r.GetName(), access.Keyring); err != nil {
		return nil, err
	}
	response, err := s.next.AddSender(ctx, r)
	s.note(ctx, audit.Record{Action: actAddSender, Target: r.GetName(), After: s.settings(response.GetSender())}, err)
	return response, err
}

// ListSenders needs keyring.
func (s keyrings) ListSenders(ctx context.Context, r *kinesinv1.ListSendersRequest) (*kinesinv1.ListSendersResponse, error) {
	if err := s.allowAll(ctx, actListSenders, access.Keyring); err != nil {
		return nil, err
	}
	return s.next.ListSenders(ctx, r)
}

// RevokeSender needs keyring.
func (s keyrings) RevokeSender(ctx context.Context, r *kinesinv1.RevokeSenderRequest) (*kinesinv1.RevokeSenderResponse, error) {
	if err := s.allowAllOf(ctx, actRevokeSender, r.GetName(), access.Keyring); err != nil {
		return nil, err
	}
	response, err := s.next.RevokeSender(ctx, r)
	s.note(ctx, audit.Record{Action: actRevokeSender, Target: r.GetName(), After: s.settings(response.GetSender())}, err)
	return response, err
}

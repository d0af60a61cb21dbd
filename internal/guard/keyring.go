package guard

import (
	"context"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
)

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

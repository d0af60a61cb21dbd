package keyring

import (
	"context"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/refusal"
)

// States of a key.
const (
	StateWaiting = "waiting" // it seals later
	StateSealing = "sealing"
	StateRetired = "retired" // it verifies what it sealed
	StateExpired = "expired" // the next rotation removes it
)

var errNoInbound = api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED,
	"this server has no inbound queue, so that nobody sends to one; with `--inbound-queue` it has one")

// RotateKeys implements the KeyringService, as do the other methods here.
func (r *Ring) RotateKeys(ctx context.Context, _ *kinesinv1.RotateKeysRequest) (*kinesinv1.RotateKeysResponse, error) {
	added, removed, err := r.rotate(ctx)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	response := &kinesinv1.RotateKeysResponse{Key: &kinesinv1.KeyringKey{
		Number: uint32(added.Number), Created: int64(added.Created), SealsFrom: int64(added.SealsFrom), State: StateWaiting,
	}}
	for _, k := range removed {
		response.Removed = append(response.Removed, uint32(k.Number))
	}
	return response, nil
}

// ListKeys lists the keys by number, without their secrets.
func (r *Ring) ListKeys(ctx context.Context, _ *kinesinv1.ListKeysRequest) (*kinesinv1.ListKeysResponse, error) {
	c, err := r.fresh(ctx)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	response, now := &kinesinv1.ListKeysResponse{}, r.cfg.Clock.Now()
	sealing := c.sealing(now)
	for i, k := range c.keys {
		v := &kinesinv1.KeyringKey{Number: uint32(k.Number), Created: int64(k.Created), SealsFrom: int64(k.SealsFrom)}
		if retired, is := c.retiredAt(i); is {
			until := retired.Add(r.cfg.IDsFor)
			v.Retired, v.MessagesUntil, v.VerifiesUntil = int64(retired), int64(retired.Add(MessagesFor)), int64(until)
			if v.State = StateRetired; now >= until {
				v.State = StateExpired
			}
		}
		switch {
		case i == sealing:
			v.State = StateSealing
		case i > sealing:
			v.State = StateWaiting
		}
		response.Keys = append(response.Keys, v)
	}
	return response, nil
}

// AddSender creates a sender unless it exists, and returns its inbound key.
func (r *Ring) AddSender(ctx context.Context, request *kinesinv1.AddSenderRequest) (*kinesinv1.AddSenderResponse, error) {
	if !r.cfg.Inbound {
		return nil, errNoInbound
	}
	row, err := r.addSender(ctx, request.Name, request.Lambdas)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	sender := row.sender()
	return &kinesinv1.AddSenderResponse{Sender: row.view(), Key: r.SenderKeyText(&sender)}, nil
}

// ListSenders lists the senders by name, without their keys.
func (r *Ring) ListSenders(ctx context.Context, _ *kinesinv1.ListSendersRequest) (*kinesinv1.ListSendersResponse, error) {
	c, err := r.fresh(ctx)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	response := &kinesinv1.ListSendersResponse{}
	for i := range c.senders {
		response.Senders = append(response.Senders, c.senders[i].view())
	}
	return response, nil
}

// RevokeSender revokes a sender.
func (r *Ring) RevokeSender(ctx context.Context, request *kinesinv1.RevokeSenderRequest) (*kinesinv1.RevokeSenderResponse, error) {
	row, err := r.revokeSender(ctx, request.Name)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	return &kinesinv1.RevokeSenderResponse{Sender: row.view()}, nil
}

func (s *senderRow) view() *kinesinv1.InboundSender {
	return &kinesinv1.InboundSender{
		Name: s.name, Lambdas: s.Lambdas, Created: int64(s.Created), Revoked: int64(s.Revoked),
	}
}

// fresh reads the rows and returns them.
func (r *Ring) fresh(ctx context.Context) (content, error) {
	if err := r.lock(ctx); err != nil {
		return content{}, err
	}
	defer r.unlock()
	err := r.read(ctx)
	return r.known, err
}

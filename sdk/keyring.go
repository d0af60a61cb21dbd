package sdk

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// RingKey is one key of the server's key ring, without its secret.
type RingKey struct {
	Number        int
	Created       time.Time // zero if unknown
	SealsFrom     time.Time // zero for the first key
	RetiredAt     time.Time // when the next key seals; zero while there is none
	MessagesUntil time.Time // until then it verifies messages and page tokens; zero as RetiredAt
	VerifiesUntil time.Time // until then at least it verifies public ids; zero as RetiredAt
	State         string    // waiting, sealing, retired, expired
}

// RingKeys lists the keys of the server's key ring by number.
func (c *Client) RingKeys(ctx context.Context) ([]RingKey, error) {
	response, err := call(ctx, c, "list keys", c.backend.keyring.ListKeys, &kinesinv1.ListKeysRequest{})
	if err != nil {
		return nil, err
	}
	return listOf(response.GetKeys(), ringKeyOf), nil
}

// RotateKeys adds a key to the server's key ring, and returns it with the numbers of the keys that were
// removed. The key seals from its SealsFrom on. ErrExists says that the key that was added last does not seal
// yet, ErrInUse that no more keys can be kept; the text says from when on.
func (c *Client) RotateKeys(ctx context.Context) (added RingKey, removed []int, err error) {
	response, err := call(ctx, c, "rotate keys", c.backend.keyring.RotateKeys, &kinesinv1.RotateKeysRequest{})
	if err != nil {
		return RingKey{}, nil, err
	}
	for _, n := range response.Removed {
		removed = append(removed, int(n))
	}
	return ringKeyOf(response.Key), removed, nil
}

func ringKeyOf(k *kinesinv1.KeyringKey) RingKey {
	return RingKey{
		Number: int(k.GetNumber()), Created: timeOf(k.GetCreated()), SealsFrom: timeOf(k.GetSealsFrom()),
		RetiredAt: timeOf(k.GetRetired()), MessagesUntil: timeOf(k.GetMessagesUntil()),
		VerifiesUntil: timeOf(k.GetVerifiesUntil()), State: k.GetState(),
	}
}

// InboundSender is who may send to the inbound queue, with a key of its own and for some lambdas only.
type InboundSender struct {
	Name    string
	Lambdas []string // patterns: names in which * stands for any characters
	Created time.Time
	Revoked time.Time // zero if it is not
}

// InboundSenderKey returns the secret with which package sqsinbound sends to the inbound queue as a sender,
// for lambdas that one of the patterns matches. It creates the sender if there is none of that name; without
// patterns it finds the one that there is. ErrExists says that there is one with other lambdas, or a revoked
// one.
func (c *Client) InboundSenderKey(ctx context.Context, name string, lambdas ...string) (string, error) {
	response, err := call(ctx, c, "inbound key", c.backend.keyring.AddSender, &kinesinv1.AddSenderRequest{Name: name, Lambdas: lambdas})
	if err != nil {
		return "", err
	}
	return response.Key, nil
}

// InboundSenders lists the senders by name, revoked ones too.
func (c *Client) InboundSenders(ctx context.Context) ([]InboundSender, error) {
	response, err := call(ctx, c, "list senders", c.backend.keyring.ListSenders, &kinesinv1.ListSendersRequest{})
	if err != nil {
		return nil, err
	}
	return listOf(response.GetSenders(), senderOf), nil
}

// RevokeInboundSender ends a sender for good: within seconds no server takes its messages. The ids of its
// tasks stay valid.
func (c *Client) RevokeInboundSender(ctx context.Context, name string) (InboundSender, error) {
	response, err := call(ctx, c, "revoke sender", c.backend.keyring.RevokeSender, &kinesinv1.RevokeSenderRequest{Name: name})
	if err != nil {
		return InboundSender{}, err
	}
	return senderOf(response.Sender), nil
}

func senderOf(s *kinesinv1.InboundSender) InboundSender {
	return InboundSender{
		Name: s.GetName(), Lambdas: s.GetLambdas(), Created: timeOf(s.GetCreated()), Revoked: timeOf(s.GetRevoked()),
	}
}

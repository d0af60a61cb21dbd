package admin

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
)

// KeyState is where a key of the key ring is in its life.
type KeyState string

// The states of keys.
const (
	KeyWaiting KeyState = "waiting" // it does not seal yet
	KeySealing KeyState = "sealing"
	KeyRetired KeyState = "retired" // it verifies, and another one seals
	KeyExpired KeyState = "expired"
)

// RingKey is one key of the server's key ring, without its secret.
type RingKey struct {
	Number        int
	Created       time.Time // zero if unknown
	SealsFrom     time.Time // zero for the first key
	Retired       time.Time // when the next key seals; zero while there is none
	MessagesUntil time.Time // until then it verifies messages and page tokens; zero as Retired
	VerifiesUntil time.Time // until then at least it verifies public ids; zero as Retired
	State         KeyState
}

// Keys has the calls about the server's key ring.
type Keys struct{ c *calls }

// List returns the keys by number.
func (s Keys) List(ctx context.Context) ([]RingKey, error) {
	r, err := call(ctx, s.c, "list keys", s.c.Keyring.ListKeys, &kinesinv1.ListKeysRequest{})
	return wirecopy.All[RingKey](r.GetKeys()), err
}

// Rotate adds a key, and returns it with the numbers of the keys that were removed. The key seals from its SealsFrom
// on. ErrExists says that the key that was added last does not seal yet, ErrInUse that no more keys can be kept; the
// text says from when on.
func (s Keys) Rotate(ctx context.Context) (added RingKey, removed []int, err error) {
	r, err := call(ctx, s.c, "rotate keys", s.c.Keyring.RotateKeys, &kinesinv1.RotateKeysRequest{})
	for _, n := range r.GetRemoved() {
		removed = append(removed, int(n))
	}
	return wirecopy.From[RingKey](r.GetKey()), removed, err
}

// Sender is who may send to the inbound queue, with a key of its own and for some lambdas only.
type Sender struct {
	Name    string
	Lambdas []string // patterns: names in which * stands for any characters
	Created time.Time
	Revoked time.Time // zero if it is not
}

// Senders has the calls about who may send to the inbound queue.
type Senders struct{ c *calls }

// Key returns the secret with which package sqsinbound sends to the inbound queue as a sender, for lambdas that one of
// the patterns matches. It creates the sender if there is none of that name; without patterns it finds the one that
// there is. ErrExists says that there is one with other lambdas, or a revoked one.
func (s Senders) Key(ctx context.Context, name string, lambdas ...string) (string, error) {
	r, err := call(ctx, s.c, "inbound key", s.c.Keyring.AddSender, &kinesinv1.AddSenderRequest{Name: name, Lambdas: lambdas})
	return r.GetKey(), err
}

// List returns the senders by name, revoked ones too.
func (s Senders) List(ctx context.Context) ([]Sender, error) {
	r, err := call(ctx, s.c, "list senders", s.c.Keyring.ListSenders, &kinesinv1.ListSendersRequest{})
	return wirecopy.All[Sender](r.GetSenders()), err
}

// Revoke ends a sender for good: within seconds no server takes its messages. The ids of its tasks stay valid.
func (s Senders) Revoke(ctx context.Context, name string) (Sender, error) {
	r, err := call(ctx, s.c, "revoke sender", s.c.Keyring.RevokeSender, &kinesinv1.RevokeSenderRequest{Name: name})
	return wirecopy.From[Sender](r.GetSender()), err
}

// InboundKey returns the secret that package sqsinbound needs to send to the inbound queue for all lambdas. It returns
// ErrUnsupported if the server has no such queue.
func (c *Client) InboundKey(ctx context.Context) (string, error) {
	r, err := call(ctx, c.calls, "inbound key", c.calls.Inbound.Key, &kinesinv1.KeyRequest{})
	return r.GetKey(), err
}

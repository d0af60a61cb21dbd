package admin

import (
	"context"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/sdk"
)

// Client has the administrative calls, by what they are about. It is safe for concurrent use.
type Client struct {
	Lambdas     Lambdas
	Gates       Gates
	Quotas      Quotas
	Objectives  Objectives
	Crons       Crons
	Jobs        Jobs
	Chains      Chains
	Groups      Groups
	DeadLetters DeadLetters
	Rejected    Rejected
	Senders     Senders
	Keys        Keys
	Tokens      Tokens
	Audit       Audit

	calls *calls
}

// New returns a client that makes its calls over the connections of another, with the same credentials, timeouts and
// retries. It needs no closing.
func New(client *sdk.Client) *Client {
	c := &calls{sdkconfig.CallsOf(client)}
	return &Client{
		Lambdas{c}, Gates{c}, Quotas{c}, Objectives{c}, Crons{c}, Jobs{c}, Chains{c}, Groups{c}, DeadLetters{c}, Rejected{c}, Senders{c}, Keys{c}, Tokens{c}, Audit{c}, c,
	}
}

// calls makes the calls of a Client.
type calls struct{ sdkconfig.Calls }

// settable returns a message without the fields that the server alone sets.
func settable[M proto.Message](m M) M {
	m.ProtoReflect().Range(func(d protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if api.Says(d, kinesinv1.E_ReadOnly) {
			m.ProtoReflect().Clear(d)
		}
		return true
	})
	return m
}

// call makes one call with the timeout and the retries of the client.
func call[Req, Res any](ctx context.Context, c *calls, what string, f func(context.Context, *Req) (*Res, error), request *Req) (*Res, error) {
	return sdkconfig.Ask(ctx, &c.Calls, what, 0, f, request)
}

// callSet is call for what reads a set of tasks, which takes longer.
func callSet[Req, Res any](ctx context.Context, c *calls, what string, f func(context.Context, *Req) (*Res, error), request *Req) (*Res, error) {
	return sdkconfig.Ask(ctx, &c.Calls, what, sdkconfig.SetTimeout, f, request)
}

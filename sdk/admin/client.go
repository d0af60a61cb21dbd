package admin

import (
	"context"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
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
	c := callsOf(sdkconfig.CallsOf(client))
	return &Client{
		Lambdas{c}, Gates{c}, Quotas{c}, Objectives{c}, Crons{c}, Jobs{c}, Chains{c}, Groups{c}, DeadLetters{c}, Rejected{c}, Senders{c}, Keys{c}, Tokens{c}, Audit{c}, c,
	}
}

// calls makes the calls of a Client.
type calls struct {
	sdkconfig.Calls

	tasks      kinesinv1connect.TaskServiceClient
	lambdas    kinesinv1connect.LambdaServiceClient
	gates      kinesinv1connect.GateServiceClient
	quotas     kinesinv1connect.QuotaServiceClient
	objectives kinesinv1connect.ObjectiveServiceClient
	crons      kinesinv1connect.CronServiceClient
	jobs       kinesinv1connect.JobServiceClient
	chains     kinesinv1connect.ChainServiceClient
	groups     kinesinv1connect.GroupServiceClient
	dead       kinesinv1connect.DeadLetterServiceClient
	inbound    kinesinv1connect.InboundServiceClient
	keyring    kinesinv1connect.KeyringServiceClient
	access     kinesinv1connect.AccessServiceClient
}

func callsOf(c sdkconfig.Calls) *calls {
	o := api.ClientOptions()
	return &calls{
		Calls:      c,
		tasks:      kinesinv1connect.NewTaskServiceClient(c.HTTP, c.Base, o...),
		lambdas:    kinesinv1connect.NewLambdaServiceClient(c.HTTP, c.Base, o...),
		gates:      kinesinv1connect.NewGateServiceClient(c.HTTP, c.Base, o...),
		quotas:     kinesinv1connect.NewQuotaServiceClient(c.HTTP, c.Base, o...),
		objectives: kinesinv1connect.NewObjectiveServiceClient(c.HTTP, c.Base, o...),
		crons:      kinesinv1connect.NewCronServiceClient(c.HTTP, c.Base, o...),
		jobs:       kinesinv1connect.NewJobServiceClient(c.HTTP, c.Base, o...),
		chains:     kinesinv1connect.NewChainServiceClient(c.HTTP, c.Base, o...),
		groups:     kinesinv1connect.NewGroupServiceClient(c.HTTP, c.Base, o...),
		dead:       kinesinv1connect.NewDeadLetterServiceClient(c.HTTP, c.Base, o...),
		inbound:    kinesinv1connect.NewInboundServiceClient(c.HTTP, c.Base, o...),
		keyring:    kinesinv1connect.NewKeyringServiceClient(c.HTTP, c.Base, o...),
		access:     kinesinv1connect.NewAccessServiceClient(c.HTTP, c.Base, o...),
	}
}

// settable returns a message without the fields that the server alone sets.
func settable[M proto.Message](m M) M {
	m.ProtoReflect().Range(func(d protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		if readOnly, _ := proto.GetExtension(d.Options(), kinesinv1.E_ReadOnly).(bool); readOnly {
			m.ProtoReflect().Clear(d)
		}
		return true
	})
	return m
}

// call makes one call with the timeout and the retries of the client.
func call[Req, Res any](ctx context.Context, c *calls, what string, f func(context.Context, *Req) (*Res, error), request *Req) (*Res, error) {
	return callWithin(ctx, c, what, 0, f, request)
}

// callSet is call for what reads a set of tasks, which takes longer.
func callSet[Req, Res any](ctx context.Context, c *calls, what string, f func(context.Context, *Req) (*Res, error), request *Req) (*Res, error) {
	return callWithin(ctx, c, what, sdkconfig.SetTimeout, f, request)
}

func callWithin[Req, Res any](ctx context.Context, c *calls, what string, timeout time.Duration, f func(context.Context, *Req) (*Res, error), request *Req) (response *Res, err error) {
	err = c.Do(ctx, what, timeout, func(ctx context.Context) (err error) {
		response, err = f(ctx, request)
		return err
	})
	return response, err
}

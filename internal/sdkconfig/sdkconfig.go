// Package sdkconfig holds the settings of an sdk.Client. It is apart from package sdk so that the packages of
// this module can set what users cannot: WithClock and WithControllers are options of sdk.NewClient.
package sdkconfig

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/controller"
)

// Client is what a client was told. The options of package sdk set its fields.
type Client struct {
	HTTP              *http.Client // nil: one of its own
	TokenFile         string
	CertFile, KeyFile string
	CAFile            string
	Log               *slog.Logger
	CallTimeout       time.Duration // of one try
	TriesMax          int

	// Encode and Decode, if set, change the payload of a task: see sdk.WithPayloadCodec.
	Encode, Decode PayloadFunc
	// EncodeResult and DecodeResult do the same to the result of a task.
	EncodeResult, DecodeResult PayloadFunc

	// Blobs keeps payloads of more than BlobLimit bytes: see sdk.WithBlobs. nil: nothing does.
	Blobs     BlobStore
	BlobLimit int

	Clock clock.Clock
	// Controllers, if set, changes the configuration of each worker before it runs. The context is Run's.
	Controllers func(ctx context.Context, c *controller.Config)
}

// BlobStore is sdk.BlobStore.
type BlobStore interface {
	Put(ctx context.Context, name string, data []byte) error
	Get(ctx context.Context, name string, bytesMax int64) ([]byte, error)
}

// PayloadFunc changes the payload of a task of a lambda. The id has no meaning if the task has a key.
type PayloadFunc func(ctx context.Context, lambda, key string, id [16]byte, payload []byte) ([]byte, error)

// WithClock returns an option that sets the source of time and randomness.
func WithClock(k clock.Clock) func(*Client) { return func(c *Client) { c.Clock = k } }

// WithControllers returns an option that sets Client.Controllers.
func WithControllers(change func(ctx context.Context, c *controller.Config)) func(*Client) {
	return func(c *Client) { c.Controllers = change }
}

// SetTimeout bounds one try of a call that reads a set of tasks, which may be all that a server has.
const SetTimeout = 10 * time.Minute

// Calls is how a client makes its calls, for the packages of this module that make others over the same connections.
type Calls struct {
	Services

	Config Client // with its defaults

	// Do makes a call with the client's timeout, or a longer one, and its retries. try makes it once.
	Do func(ctx context.Context, what string, timeout time.Duration, try func(context.Context) error) error
	// RequestID returns what makes a repeated call harmless.
	RequestID func() []byte
	// TaskInfo returns an sdk.TaskInfo.
	TaskInfo func(*kinesinv1.Task) any
	// Task returns the task of an *sdk.GetResult as a message, with the payload and the result as users have them; an
	// empty one if there is none.
	Task func(result any) *kinesinv1.Task
	// AddMembers adds []sdk.Item to a group, as sdk.Client.AddMembers, and calls added with the answer to each call.
	AddMembers func(ctx context.Context, group string, at int, items any, added func(*kinesinv1.AddMembersResponse)) error
	// Decode returns a payload that was read of a task as users have it.
	Decode func(ctx context.Context, lambda, key, id string, payload []byte) ([]byte, error)
}

// Services are the services of a server.
type Services struct {
	Tasks       kinesinv1connect.TaskServiceClient
	Lambdas     kinesinv1connect.LambdaServiceClient
	Gates       kinesinv1connect.GateServiceClient
	Quotas      kinesinv1connect.QuotaServiceClient
	Objectives  kinesinv1connect.ObjectiveServiceClient
	Crons       kinesinv1connect.CronServiceClient
	Jobs        kinesinv1connect.JobServiceClient
	Chains      kinesinv1connect.ChainServiceClient
	Groups      kinesinv1connect.GroupServiceClient
	DeadLetters kinesinv1connect.DeadLetterServiceClient
	Inbound     kinesinv1connect.InboundServiceClient
	Keyring     kinesinv1connect.KeyringServiceClient
	Access      kinesinv1connect.AccessServiceClient
}

// ServicesOf returns the services at a URL, to which h makes the calls.
func ServicesOf(h connect.HTTPClient, base string) Services {
	o := api.ClientOptions()
	return Services{
		Tasks:       kinesinv1connect.NewTaskServiceClient(h, base, o...),
		Lambdas:     kinesinv1connect.NewLambdaServiceClient(h, base, o...),
		Gates:       kinesinv1connect.NewGateServiceClient(h, base, o...),
		Quotas:      kinesinv1connect.NewQuotaServiceClient(h, base, o...),
		Objectives:  kinesinv1connect.NewObjectiveServiceClient(h, base, o...),
		Crons:       kinesinv1connect.NewCronServiceClient(h, base, o...),
		Jobs:        kinesinv1connect.NewJobServiceClient(h, base, o...),
		Chains:      kinesinv1connect.NewChainServiceClient(h, base, o...),
		Groups:      kinesinv1connect.NewGroupServiceClient(h, base, o...),
		DeadLetters: kinesinv1connect.NewDeadLetterServiceClient(h, base, o...),
		Inbound:     kinesinv1connect.NewInboundServiceClient(h, base, o...),
		Keyring:     kinesinv1connect.NewKeyringServiceClient(h, base, o...),
		Access:      kinesinv1connect.NewAccessServiceClient(h, base, o...),
	}
}

// Ask makes one call with the client's timeout, or a longer one, and its retries.
func Ask[Req, Res any](ctx context.Context, c *Calls, what string, timeout time.Duration, f func(context.Context, *Req) (*Res, error), request *Req) (response *Res, err error) {
	err = c.Do(ctx, what, timeout, func(ctx context.Context) (err error) {
		response, err = f(ctx, request)
		return err
	})
	return response, err
}

// CallsOf returns the Calls of an *sdk.Client. Package sdk sets it, so that its Client needs no method that users
// would see.
var CallsOf func(client any) Calls //nolint:gochecknoglobals // set once

// ItemOf returns a task of the wire as an sdk.Item. Package sdk sets it.
var ItemOf func(*kinesinv1.ScheduleItem) (any, error) //nolint:gochecknoglobals // set once

// WireOf returns an *sdk.Item as it is on the wire, without a request id. Package sdk sets it.
var WireOf func(item any) *kinesinv1.ScheduleItem //nolint:gochecknoglobals // set once

// OutcomeError is an error by which a handler says exactly how its attempt ended, a snooze with a text of
// its own. It is for the packages of this module: users have nil, sdk.Fatal, sdk.Snooze and other errors.
type OutcomeError struct{ Outcome controller.Outcome }

// Error returns the error of the outcome.
func (e *OutcomeError) Error() string { return e.Outcome.Kind.String() + ": " + e.Outcome.Error }

// WithDefaults returns a copy in which every unset field has its default.
func (c Client) WithDefaults(callTimeout time.Duration, triesMax int) Client {
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Clock == nil {
		c.Clock = clock.Real()
	}
	c.CallTimeout = cmp.Or(max(c.CallTimeout, 0), callTimeout)
	c.TriesMax = cmp.Or(max(c.TriesMax, 0), triesMax)
	return c
}

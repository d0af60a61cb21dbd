package sdk

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/internal/dial"
)

// wireTasks carries calls about tasks over the network. Calls to Wait share one connection.
type wireTasks struct {
	kinesinv1connect.TaskServiceClient

	waits kinesinv1connect.TaskServiceClient
}

func newWireTasks(h dial.Clients) wireTasks {
	return wireTasks{
		TaskServiceClient: kinesinv1connect.NewTaskServiceClient(h.Calls, h.Base, api.ClientOptions()...),
		waits:             kinesinv1connect.NewTaskServiceClient(h.Streams, h.Base, api.ClientOptions()...),
	}
}

// Wait returns when all named tasks have ended.
func (w wireTasks) Wait(ctx context.Context, r *kinesinv1.WaitRequest) (*kinesinv1.GetResponse, error) {
	return w.waits.Wait(ctx, r)
}

// wireWorkers carries the calls of workers over the network.
type wireWorkers struct {
	calls   kinesinv1connect.WorkerServiceClient
	streams kinesinv1connect.WorkerServiceClient
	clock   clock.Clock
	timeout time.Duration // of one call
	servers int           // how many there are
}

func newWireWorkers(h dial.Clients, cfg *clientConfig) wireWorkers {
	return wireWorkers{
		calls:   kinesinv1connect.NewWorkerServiceClient(h.Beats, h.Base, api.ClientOptions()...),
		streams: kinesinv1connect.NewWorkerServiceClient(ownConnection{h.Streams}, h.Base, api.ClientOptions()...),
		clock:   cfg.Clock, timeout: cfg.CallTimeout, servers: h.Servers,
	}
}

// ownConnection has each call go over a connection that no later call gets: a stream that was given up is opened
// again elsewhere, because a proxy may answer the pings of a connection that carries nothing else any more.
// Each message is one frame.
type ownConnection struct{ *http.Client }

func (c ownConnection) Do(r *http.Request) (*http.Response, error) {
	r.Close, r.Body = true, api.WholeMessages(r.Body)
	return c.Client.Do(r) //nolint:gosec // the server that the program names
}

// Register opens a worker lease.
func (b wireWorkers) Register(ctx context.Context, r *kinesinv1.RegisterRequest) (*kinesinv1.RegisterResponse, error) {
	return once(ctx, b.clock, b.timeout, b.calls.Register, r)
}

// Heartbeat renews a worker lease. Where there are several servers it asks each of them in turn, because a
// repetition is harmless, and the worker's next heartbeat may be too late.
func (b wireWorkers) Heartbeat(ctx context.Context, r *kinesinv1.HeartbeatRequest) (*kinesinv1.HeartbeatResponse, error) {
	for tried := 1; ; tried++ {
		response, err := once(ctx, b.clock, b.timeout, b.calls.Heartbeat, r)
		if tried >= b.servers || !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			return response, err
		}
	}
}

// Leave ends a worker lease.
func (b wireWorkers) Leave(ctx context.Context, r *kinesinv1.LeaveRequest) (*kinesinv1.LeaveResponse, error) {
	return once(ctx, b.clock, b.timeout, b.calls.Leave, r)
}

// Work opens a stream of tasks and results.
func (b wireWorkers) Work(ctx context.Context) (controller.Stream, error) {
	s, err := b.streams.Work(ctx)
	if err != nil {
		return nil, api.FromWire(err)
	}
	// HTTP/2 does not notice the end of ctx while it waits for more of the request.
	context.AfterFunc(ctx, func() { _ = s.CloseRequest() })
	return wireStream{s}, nil
}

type wireStream struct {
	s *connect.BidiStreamForClientSimple[kinesinv1.WorkRequest, kinesinv1.WorkResponse]
}

// Send returns io.EOF when the server has ended the stream.
func (w wireStream) Send(r *kinesinv1.WorkRequest) error {
	err := w.s.Send(r)
	if errors.Is(err, io.EOF) {
		return io.EOF
	}
	return api.FromWire(err)
}

// Receive returns the server's reason when it has ended the stream.
func (w wireStream) Receive() (*kinesinv1.WorkResponse, error) {
	r, err := w.s.Receive()
	if err != nil {
		return nil, api.FromWire(err)
	}
	return r, nil
}

// Close ends the stream.
func (w wireStream) Close() error {
	return errors.Join(w.s.CloseRequest(), w.s.CloseResponse())
}

package sdk_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"connectrpc.com/connect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/sdk"
)

// server is a fake Kinesin behind a real HTTP server. A test sets what it answers; what is not set is
// unimplemented.
type server struct {
	kinesinv1connect.UnimplementedTaskServiceHandler
	kinesinv1connect.UnimplementedWorkerServiceHandler

	url string

	schedule func(*kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error)
	get      func(*kinesinv1.GetRequest) (*kinesinv1.GetResponse, error)
	list     func(*kinesinv1.ListRequest) (*kinesinv1.ListResponse, error)
	cancel   func(*kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error)
	redrive  func(*kinesinv1.RedriveRequest) (*kinesinv1.ChangeResponse, error)
	wait     func(*kinesinv1.WaitRequest) (*kinesinv1.GetResponse, error)
	work     func(ctx context.Context, s *connect.BidiStream[kinesinv1.WorkRequest, kinesinv1.WorkResponse]) error

	mu         sync.Mutex
	registered *kinesinv1.RegisterRequest
	left       int
}

func newServer(t *testing.T) *server {
	t.Helper()
	return newServerWith(t, func(h http.Handler) http.Handler { return h })
}

// newServerWith puts something in front of the server.
func newServerWith(t *testing.T, before func(http.Handler) http.Handler) *server {
	t.Helper()
	s := &server{}
	h := httptest.NewUnstartedServer(nil)
	h.Config = api.NewServer(before(s.handler()))
	h.Start()
	t.Cleanup(h.Close)
	s.url = h.URL
	return s
}

func (s *server) handler() http.Handler {
	mux := http.NewServeMux()
	options := api.HandlerOptions(api.Hooks{})
	mux.Handle(kinesinv1connect.NewTaskServiceHandler(s, options...))
	mux.Handle(kinesinv1connect.NewWorkerServiceHandler(s, options...))
	return mux
}

func (s *server) client(t *testing.T, opts ...sdk.ClientOption) *sdk.Client {
	t.Helper()
	c, err := sdk.NewClient(s.url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (s *server) Schedule(_ context.Context, r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.schedule(r)
}

func (s *server) Get(_ context.Context, r *kinesinv1.GetRequest) (*kinesinv1.GetResponse, error) {
	return s.get(r)
}

func (s *server) List(_ context.Context, r *kinesinv1.ListRequest) (*kinesinv1.ListResponse, error) {
	return s.list(r)
}

func (s *server) Cancel(_ context.Context, r *kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error) {
	return s.cancel(r)
}

func (s *server) Redrive(_ context.Context, r *kinesinv1.RedriveRequest) (*kinesinv1.ChangeResponse, error) {
	return s.redrive(r)
}

func (s *server) Wait(_ context.Context, r *kinesinv1.WaitRequest) (*kinesinv1.GetResponse, error) {
	return s.wait(r)
}

func (s *server) Register(_ context.Context, r *kinesinv1.RegisterRequest) (*kinesinv1.RegisterResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.registered = r
	return &kinesinv1.RegisterResponse{Worker: "w1", Lease: 15_000_000, Heartbeat: 3_750_000}, nil
}

func (s *server) Heartbeat(context.Context, *kinesinv1.HeartbeatRequest) (*kinesinv1.HeartbeatResponse, error) {
	return &kinesinv1.HeartbeatResponse{}, nil
}

func (s *server) Leave(context.Context, *kinesinv1.LeaveRequest) (*kinesinv1.LeaveResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left++
	return &kinesinv1.LeaveResponse{}, nil
}

func (s *server) Work(ctx context.Context, w *connect.BidiStream[kinesinv1.WorkRequest, kinesinv1.WorkResponse]) error {
	return s.work(ctx, w)
}

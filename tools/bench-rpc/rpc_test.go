// Package benchrpc compares the ways to carry Kinesin's hot calls over
// loopback: connect over HTTP/1.1, connect and connect's gRPC over HTTP/2
// without TLS, and google.golang.org/grpc, all with the same generated codec.
//
//	cd tools/bench-rpc && go test -bench . -count 6
//
// cpu-µs/op is the CPU time of client and server together.
package benchrpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
)

func BenchmarkScheduleOne(b *testing.B)  { eachUnary(b, 1) }
func BenchmarkSchedule1000(b *testing.B) { eachUnary(b, 1000) }

func eachUnary(b *testing.B, items int) {
	request := scheduleRequest(items)
	for _, w := range ways {
		call := w.start(b).schedule
		b.Run(w.name, func(b *testing.B) {
			measure(b, func() {
				for b.Loop() {
					check(b, call(b.Context(), request, items))
				}
			})
		})
		if items > 1 {
			continue
		}
		b.Run(w.name+"/parallel16", func(b *testing.B) {
			b.SetParallelism(8)
			measure(b, func() {
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						check(b, call(b.Context(), request, items))
					}
				})
			})
		})
	}
}

// BenchmarkWork25 sends 25 claimed tasks one way and 25 results the other way, one exchange after the other.
func BenchmarkWork25(b *testing.B) {
	results := workRequest(25)
	for _, w := range ways {
		open := w.start(b).work
		if open == nil {
			continue
		}
		b.Run(w.name, func(b *testing.B) {
			s, err := open(b.Context())
			check(b, err)
			measure(b, func() {
				for b.Loop() {
					check(b, s.Send(results))
					response, err := s.Receive()
					check(b, err)
					if len(response.Tasks) != 25 {
						b.Fatal("short response")
					}
				}
			})
		})
	}
}

func measure(b *testing.B, run func()) {
	b.Helper()
	b.ReportAllocs()
	before := cpuMicros()
	run()
	b.ReportMetric(float64(cpuMicros()-before)/float64(b.N), "cpu-µs/op")
}

func cpuMicros() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return (u.Utime.Nano() + u.Stime.Nano()) / 1000
}

func check(b *testing.B, err error) {
	if err != nil {
		b.Helper()
		b.Fatal(err)
	}
}

// stream is a client's side of Work.
type stream interface {
	Send(*kinesinv1.WorkRequest) error
	Receive() (*kinesinv1.WorkResponse, error)
}

type clients struct {
	schedule func(ctx context.Context, r *kinesinv1.ScheduleRequest, items int) error
	work     func(ctx context.Context) (stream, error)
}

var ways = []struct {
	name  string
	start func(b *testing.B) clients
}{
	{"connect-http1", func(b *testing.B) clients { c := startConnect(b, false); c.work = nil; return c }},
	{"connect-h2c", func(b *testing.B) clients { return startConnect(b, true) }},
	{"connect-h2c-grpc", func(b *testing.B) clients { return startConnect(b, true, connect.WithGRPC()) }},
	{"grpc-go", startGRPC},
}

func startConnect(b *testing.B, http2 bool, opts ...connect.ClientOption) clients {
	mux := http.NewServeMux()
	mux.Handle(kinesinv1connect.NewTaskServiceHandler(service{}, api.HandlerOptions(api.Hooks{})...))
	mux.Handle(kinesinv1connect.NewWorkerServiceHandler(service{}, api.HandlerOptions(api.Hooks{})...))
	var both, client http.Protocols
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	client.SetHTTP1(!http2)
	client.SetUnencryptedHTTP2(http2)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(b, err)
	server := &http.Server{Handler: mux, Protocols: &both}
	go func() { _ = server.Serve(listener) }()
	transport := &http.Transport{Protocols: &client, MaxIdleConnsPerHost: 64, WriteBufferSize: 64 << 10, ReadBufferSize: 64 << 10}
	b.Cleanup(func() { transport.CloseIdleConnections(); _ = server.Close() })

	url := "http://" + listener.Addr().String()
	opts = append(api.ClientOptions(), opts...)
	hc := &http.Client{Transport: transport}
	tasks := kinesinv1connect.NewTaskServiceClient(hc, url, opts...)
	workers := kinesinv1connect.NewWorkerServiceClient(hc, url, opts...)
	return clients{
		schedule: func(ctx context.Context, r *kinesinv1.ScheduleRequest, items int) error {
			return complete(items)(tasks.Schedule(ctx, r))
		},
		work: func(ctx context.Context) (stream, error) { return workers.Work(ctx) },
	}
}

func complete(items int) func(*kinesinv1.ScheduleResponse, error) error {
	return func(r *kinesinv1.ScheduleResponse, err error) error {
		if err == nil && len(r.Results) != items {
			return fmt.Errorf("%d results", len(r.Results))
		}
		return err
	}
}

// service answers at once with messages of the usual size.
type service struct {
	kinesinv1connect.UnimplementedTaskServiceHandler
	kinesinv1connect.UnimplementedWorkerServiceHandler
}

func (service) Schedule(_ context.Context, r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
	results := make([]*kinesinv1.ScheduleResult, len(r.Items))
	for i := range results {
		results[i] = &kinesinv1.ScheduleResult{Id: publicID, Due: 1_800_000_000_000_000}
	}
	return &kinesinv1.ScheduleResponse{Results: results}, nil
}

func (service) Work(_ context.Context, s *connect.BidiStream[kinesinv1.WorkRequest, kinesinv1.WorkResponse]) error {
	return answer(s)
}

type serverStream interface {
	Receive() (*kinesinv1.WorkRequest, error)
	Send(*kinesinv1.WorkResponse) error
}

func answer(s serverStream) error {
	for {
		r, err := s.Receive()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.Send(workResponse(len(r.Results))); err != nil {
			return err
		}
	}
}

const publicID = "k1AZqk2oF0cL2Qx0W7vJk3mQGMJk9q0QAAAAABAAABt5p0Yx1r0vXJ4Q"

func scheduleRequest(n int) *kinesinv1.ScheduleRequest {
	items := make([]*kinesinv1.ScheduleItem, n)
	for i := range items {
		items[i] = &kinesinv1.ScheduleItem{
			Lambda: "send-reminder", Delay: 60_000_000, Payload: make([]byte, 200), RequestId: make([]byte, 16),
		}
	}
	return &kinesinv1.ScheduleRequest{Items: items}
}

func workRequest(n int) *kinesinv1.WorkRequest {
	results := make([]*kinesinv1.Result, n)
	for i := range results {
		results[i] = &kinesinv1.Result{Task: make([]byte, 16), Attempt: 1, Outcome: "success", Started: 1_800_000_000_000_000}
	}
	return &kinesinv1.WorkRequest{Results: results}
}

func workResponse(n int) *kinesinv1.WorkResponse {
	tasks := make([]*kinesinv1.Claimed, n)
	acks := make([]*kinesinv1.ResultAck, n)
	for i := range tasks {
		tasks[i] = &kinesinv1.Claimed{
			Task: make([]byte, 16), Id: publicID, Lambda: "send-reminder", Priority: "normal", Attempt: 1, MaxAttempts: 10,
			Due: 1_800_000_000_000_000, Created: 1_800_000_000_000_000, Timeout: 900_000_000, Payload: make([]byte, 200),
		}
		acks[i] = &kinesinv1.ResultAck{Task: make([]byte, 16), Attempt: 1}
	}
	return &kinesinv1.WorkResponse{Tasks: tasks, Acks: acks, Now: 1_800_000_000_000_000}
}

// vtCodec is the codec of package api for grpc.
type vtCodec struct{}

func (vtCodec) Name() string { return "proto" }
func (vtCodec) Marshal(v any) ([]byte, error) {
	return v.(interface{ MarshalVT() ([]byte, error) }).MarshalVT()
}
func (vtCodec) Unmarshal(data []byte, v any) error {
	return v.(interface{ UnmarshalVT([]byte) error }).UnmarshalVT(data)
}

func startGRPC(b *testing.B) clients {
	encoding.RegisterCodec(vtCodec{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(b, err)
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "bench", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Schedule", Handler: grpcSchedule}},
		Streams: []grpc.StreamDesc{{StreamName: "Work", ServerStreams: true, ClientStreams: true, Handler: func(_ any, s grpc.ServerStream) error {
			return answer(grpcServer{s})
		}}},
	}, service{})
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(b, err)
	b.Cleanup(func() { _ = conn.Close(); server.Stop() })
	return clients{
		schedule: func(ctx context.Context, r *kinesinv1.ScheduleRequest, items int) error {
			response := new(kinesinv1.ScheduleResponse)
			err := conn.Invoke(ctx, "/bench/Schedule", r, response)
			return complete(items)(response, err)
		},
		work: func(ctx context.Context) (stream, error) {
			s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, "/bench/Work")
			return grpcClient{s}, err
		},
	}
}

func grpcSchedule(srv any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // grpc's signature
	request := new(kinesinv1.ScheduleRequest)
	if err := decode(request); err != nil {
		return nil, err
	}
	return srv.(service).Schedule(ctx, request)
}

type grpcServer struct{ grpc.ServerStream }

func (s grpcServer) Receive() (*kinesinv1.WorkRequest, error) {
	r := new(kinesinv1.WorkRequest)
	return r, s.RecvMsg(r)
}
func (s grpcServer) Send(r *kinesinv1.WorkResponse) error { return s.SendMsg(r) }

type grpcClient struct{ grpc.ClientStream }

func (s grpcClient) Receive() (*kinesinv1.WorkResponse, error) {
	r := new(kinesinv1.WorkResponse)
	return r, s.RecvMsg(r)
}
func (s grpcClient) Send(r *kinesinv1.WorkRequest) error { return s.SendMsg(r) }

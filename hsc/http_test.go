package hsc

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/task"
)

// overHTTP returns a client of the service over real connections.
func overHTTP(t *testing.T, f *fixture, options ...connect.ClientOption) kinesinv1connect.WorkerServiceClient {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(kinesinv1connect.NewWorkerServiceHandler(f.svc, api.HandlerOptions(api.Hooks{})...))
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetHTTP1(true)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(transport.CloseIdleConnections)
	return kinesinv1connect.NewWorkerServiceClient(&http.Client{Transport: transport}, server.URL, append(api.ClientOptions(), options...)...)
}

// live is a fixture in real time.
func live(t *testing.T) *fixture {
	t.Helper()
	goleak.VerifyNone(t)
	f := newFixture(t, true)
	t.Cleanup(func() {
		f.stop()
		goleak.VerifyNone(t)
	})
	return f
}

func TestAStreamOverHTTP(t *testing.T) {
	for name, options := range map[string][]connect.ClientOption{"connect": nil, "grpc": {connect.WithGRPC()}} {
		t.Run(name, func(t *testing.T) {
			f := live(t)
			client := overHTTP(t, f, options...)
			registered, err := client.Register(t.Context(), &kinesinv1.RegisterRequest{Name: "w"})
			if err != nil {
				t.Fatal(err)
			}
			tasks := f.enqueueMany("mail", 50)
			stream, err := client.Work(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			hello := &kinesinv1.Hello{Worker: registered.GetWorker(), Groups: []*kinesinv1.SlotGroup{slots(7, "mail")}}
			if err := stream.Send(&kinesinv1.WorkRequest{Hello: hello}); err != nil {
				t.Fatal(err)
			}
			for acks := 0; acks < len(tasks); {
				r, err := stream.Receive()
				if err != nil {
					t.Fatal(err)
				}
				acks += len(r.GetAcks())
				answer := &kinesinv1.WorkRequest{}
				for _, c := range r.GetTasks() {
					answer.Results = append(answer.Results, result(c, "success"))
				}
				if err := stream.Send(answer); err != nil {
					t.Fatal(err)
				}
			}
			for _, one := range tasks {
				f.wantState(one.ID, task.Success)
			}
			if err := stream.CloseRequest(); err != nil {
				t.Error(err)
			}
			if _, err := stream.Receive(); !errors.Is(err, io.EOF) {
				t.Errorf("ended with %v", err)
			}
			_ = stream.CloseResponse()
		})
	}
}

func TestTheServersReasonReachesTheWorker(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*fixture, string)
		want error
	}{
		"lease lost": {func(f *fixture, w string) { f.svc.removeSession(w, leaseLost(w)) }, api.ErrLeaseLost},
		"stopping":   {func(f *fixture, _ string) { f.stop() }, api.ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			f := live(t)
			client := overHTTP(t, f)
			worker := f.register()
			stream, err := client.Work(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			hello := &kinesinv1.Hello{Worker: worker, Groups: []*kinesinv1.SlotGroup{slots(7, "mail")}}
			if err := stream.Send(&kinesinv1.WorkRequest{Hello: hello}); err != nil {
				t.Fatal(err)
			}
			if _, err := stream.Receive(); err != nil {
				t.Fatal(err)
			}
			c.end(f, worker)
			if _, err := stream.Receive(); !errors.Is(api.FromWire(err), c.want) {
				t.Errorf("ended with %v, want %v", err, c.want)
			}
			_ = stream.CloseRequest()
			_ = stream.CloseResponse()
		})
	}
}

func TestAWorkerThatVanishesLeavesNothingBehind(t *testing.T) {
	f := live(t)
	client := overHTTP(t, f)
	worker := f.register()
	ctx, vanish := context.WithCancel(t.Context())
	stream, err := client.Work(ctx)
	if err != nil {
		t.Fatal(err)
	}
	hello := &kinesinv1.Hello{Worker: worker, Groups: []*kinesinv1.SlotGroup{slots(7, "mail")}}
	if err := stream.Send(&kinesinv1.WorkRequest{Hello: hello}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Receive(); err != nil {
		t.Fatal(err)
	}
	sess, err := f.svc.session(t.Context(), worker)
	if err != nil {
		t.Fatal(err)
	}
	over := sess.current().ctx.Done()
	vanish()
	_ = stream.CloseResponse() // resets the HTTP stream, as the end of the process would
	<-over
}

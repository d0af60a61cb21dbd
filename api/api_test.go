package api_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/task"
)

// taskService answers Schedule with what the test says.
type taskService struct {
	kinesinv1connect.UnimplementedTaskServiceHandler

	schedule func(*kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error)
}

func (s taskService) Schedule(_ context.Context, r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
	return s.schedule(r)
}

func serve(t *testing.T, s taskService, hooks api.Hooks) kinesinv1connect.TaskServiceClient {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(kinesinv1connect.NewTaskServiceHandler(s, api.HandlerOptions(hooks)...))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return kinesinv1connect.NewTaskServiceClient(server.Client(), server.URL, api.ClientOptions()...)
}

func TestErrorsCrossTheWire(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		returned error
		want     error
		text     string
	}{
		{"sentinel with context", fmt.Errorf("%w %q", api.ErrUnknownLambda, "mail"), api.ErrUnknownLambda, `unknown lambda "mail"`},
		{"error with a text", api.Errorf(kinesinv1.Reason_REASON_KEY_CONFLICT, "key %q is taken", "k"), api.ErrKeyConflict, `key "k" is taken`},
		{"refusal of the domain", fmt.Errorf("%w shards 0: want 1 to 3", task.ErrInvalid), api.ErrInvalid, "invalid shards 0: want 1 to 3"},
		{"ended", fmt.Errorf("%w: success", task.ErrEnded), api.ErrTooLate, "task has ended: success"},
		{"anything else", errors.New("disk 7 of host db-3 is broken"), api.ErrInternal, api.InternalText},
		{"internal on purpose", api.Errorf(kinesinv1.Reason_REASON_INTERNAL, "secret"), api.ErrInternal, api.InternalText},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			client := serve(t, taskService{schedule: func(*kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
				return nil, c.returned
			}}, api.Hooks{})
			_, err := client.Schedule(t.Context(), &kinesinv1.ScheduleRequest{})
			if err = api.FromWire(err); !errors.Is(err, c.want) || err.Error() != c.text {
				t.Errorf("client sees %q (%v), want %q", err, errors.Is(err, c.want), c.text)
			}
			if inItem := api.ErrorOf(api.ProblemOf(c.returned)); !errors.Is(inItem, c.want) || inItem.Error() != c.text {
				t.Errorf("an item says %q, want %q", inItem, c.text)
			}
		})
	}
}

func TestRetryAfterCrossesTheWire(t *testing.T) {
	t.Parallel()
	client := serve(t, taskService{schedule: func(*kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
		return nil, fmt.Errorf("lambda mail: %w", &api.Error{
			Reason: kinesinv1.Reason_REASON_UNAVAILABLE, Text: "the store is busy", RetryAfter: 250 * time.Millisecond,
		})
	}}, api.Hooks{})
	_, err := client.Schedule(t.Context(), &kinesinv1.ScheduleRequest{})
	e, found := errors.AsType[*api.Error](api.FromWire(err))
	if !found || e.RetryAfter != 250*time.Millisecond || e.Text != "lambda mail: the store is busy" {
		t.Errorf("got %+v", e)
	}
}

func TestEveryReasonHasOneSentinelAndOneCode(t *testing.T) {
	t.Parallel()
	for number := range kinesinv1.Reason_name {
		reason := kinesinv1.Reason(number)
		if reason == kinesinv1.Reason_REASON_UNSPECIFIED || reason == kinesinv1.Reason_REASON_THROTTLED {
			continue
		}
		want := api.Errorf(reason, "x").Sentinel()
		if known := !errors.Is(want, api.ErrInternal); known == (reason == kinesinv1.Reason_REASON_INTERNAL) {
			t.Errorf("%v stands for %v", reason, want)
		}
		wire := api.ToWire(api.Errorf(reason, "x"))
		if got := api.FromWire(wire); !errors.Is(got, want) {
			t.Errorf("%v came back as %v", reason, got)
		}
		if reason != kinesinv1.Reason_REASON_INTERNAL && connect.CodeOf(wire) == connect.CodeInternal {
			t.Errorf("%v has no code", reason)
		}
	}
}

func TestPanicStaysInside(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 1)
	client := serve(t, taskService{schedule: func(*kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
		panic("index of something private")
	}}, api.Hooks{Internal: func(_ context.Context, procedure string, err error) { seen <- procedure + " " + err.Error() }})
	_, err := client.Schedule(t.Context(), &kinesinv1.ScheduleRequest{})
	if err = api.FromWire(err); err.Error() != api.InternalText {
		t.Errorf("client sees %q", err)
	}
	if hooked := <-seen; !strings.Contains(hooked, "Schedule panic: index of something private") {
		t.Errorf("hook saw %q", hooked)
	}
}

func unreached(err error) bool {
	e, found := errors.AsType[*api.Error](api.FromWire(err))
	return found && e.Unreached
}

// TestAServerThatReachesNothing: what it says of its own connections is not of the client's.
func TestAServerThatReachesNothing(t *testing.T) {
	t.Parallel()
	for _, code := range []connect.Code{connect.CodeUnavailable, connect.CodeInternal} {
		client := serve(t, taskService{schedule: func(*kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
			return nil, connect.NewError(code, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})
		}}, api.Hooks{})
		_, err := client.Schedule(t.Context(), &kinesinv1.ScheduleRequest{})
		if err == nil || unreached(err) {
			t.Errorf("%v: %v", code, err)
		}
	}
}

// TestNoConnectionInTime: the time it may take is not the caller's context.
func TestNoConnectionInTime(t *testing.T) {
	t.Parallel()
	late := &http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: context.DeadlineExceeded}
	}}}
	_, err := kinesinv1connect.NewTaskServiceClient(late, "http://127.0.0.1:1", api.ClientOptions()...).Get(t.Context(), &kinesinv1.GetRequest{})
	if got := api.FromWire(err); !errors.Is(got, api.ErrUnavailable) || !unreached(err) {
		t.Errorf("%v, want one to try again", got)
	}
}

func TestErrorsWithoutKinesin(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	url := server.URL
	client := kinesinv1connect.NewTaskServiceClient(server.Client(), url, api.ClientOptions()...)
	if _, err := client.Get(t.Context(), &kinesinv1.GetRequest{}); !errors.Is(api.FromWire(err), api.ErrUnsupported) ||
		!strings.Contains(api.FromWire(err).Error(), "with the role for it") {
		t.Errorf("a web server without the service: %v", api.FromWire(err))
	}
	server.Close()
	if _, err := client.Get(t.Context(), &kinesinv1.GetRequest{}); !errors.Is(api.FromWire(err), api.ErrUnavailable) || !unreached(err) {
		t.Errorf("no server: %v", api.FromWire(err))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := client.Get(ctx, &kinesinv1.GetRequest{}); !errors.Is(api.FromWire(err), context.Canceled) {
		t.Errorf("own context ended: %v", api.FromWire(err))
	}
}

// TestAnAnswerThatBreaksOff: the server dies while it answers, over HTTP/1.1 and HTTP/2.
func TestAnAnswerThatBreaksOff(t *testing.T) {
	t.Parallel()
	for _, tls := range []bool{false, true} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/proto")
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("the first bytes"))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}))
		if server.EnableHTTP2 = tls; tls {
			server.StartTLS()
		} else {
			server.Start()
		}
		client := kinesinv1connect.NewTaskServiceClient(server.Client(), server.URL, api.ClientOptions()...)
		_, err := client.Get(t.Context(), &kinesinv1.GetRequest{})
		if got := api.FromWire(err); !errors.Is(got, api.ErrUnavailable) || unreached(err) {
			t.Errorf("%v: %v, want one to try again", tls, got)
		}
		server.Close()
	}
}

func TestCodecWritesProtobuf(t *testing.T) {
	t.Parallel()
	sent := &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{
		{Lambda: "mail", Due: 1, Payload: []byte("hello"), RequestId: make([]byte, 16)}, {Key: "k", Delay: -1},
	}}
	client := serve(t, taskService{schedule: func(got *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
		if !proto.Equal(got, sent) {
			return nil, fmt.Errorf("%w: got %v", api.ErrInvalid, got)
		}
		return &kinesinv1.ScheduleResponse{Results: []*kinesinv1.ScheduleResult{{Id: "k1"}}}, nil
	}}, api.Hooks{})
	response, err := client.Schedule(t.Context(), sent)
	if err != nil || len(response.Results) != 1 || response.Results[0].Id != "k1" {
		t.Fatalf("got %v, %v", response, err)
	}
}

// A text that is no UTF-8 cannot be sent, or is refused by the server. Either way a client does not try again.
func TestATextThatIsNoUTF8(t *testing.T) {
	t.Parallel()
	client := serve(t, taskService{}, api.Hooks{})
	key := []*kinesinv1.TaskKey{{Lambda: "mail"}, {Lambda: "mail", Key: "a\xffb"}}
	_, cold := client.Cancel(t.Context(), &kinesinv1.CancelRequest{Keys: key})
	_, hot := client.Get(t.Context(), &kinesinv1.GetRequest{Keys: key})
	for _, err := range []error{cold, hot} {
		if err = api.FromWire(err); !errors.Is(err, api.ErrInvalid) || !strings.Contains(err.Error(), "keys[1].key: ") || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("%v", err)
		}
	}
}

func TestAMessageAboveTheLimitIsTooLarge(t *testing.T) {
	t.Parallel()
	client := serve(t, taskService{schedule: func(*kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
		return &kinesinv1.ScheduleResponse{}, nil
	}}, api.Hooks{})
	_, err := client.Schedule(t.Context(), &kinesinv1.ScheduleRequest{
		Items: []*kinesinv1.ScheduleItem{{Lambda: "mail", Payload: make([]byte, api.MessageBytesMax)}},
	})
	if got := api.FromWire(err); !errors.Is(got, api.ErrTooLarge) {
		t.Errorf("got %v, want ErrTooLarge", got)
	}
}

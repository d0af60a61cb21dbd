package sdk_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/sdk"
)

// A server got the call and broke the connection: the next one gets it with the same request id.
func TestScheduleIsRepeatedAtTheNextServer(t *testing.T) {
	t.Parallel()
	asked := make(chan *kinesinv1.ScheduleRequest, 9)
	a, b := newServer(t), newServer(t)
	a.schedule = func(r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
		asked <- r
		panic(http.ErrAbortHandler)
	}
	b.schedule = func(r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
		asked <- r
		return &kinesinv1.ScheduleResponse{Results: []*kinesinv1.ScheduleResult{{Id: "k1"}}}, nil
	}
	k, err := sdk.NewClient(a.url + "," + b.url)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	r, err := k.Schedule(t.Context(), sdk.Item{Lambda: "mail"})
	if err != nil || r.ID != "k1" || len(asked) != 2 {
		t.Fatalf("%+v, %v, after %d calls", r, err, len(asked))
	}
	if first, second := <-asked, <-asked; first.Again || !first.First || !second.Again || second.First || !bytes.Equal(first.Items[0].RequestId, second.Items[0].RequestId) {
		t.Errorf("%v, then %v", first, second)
	}
}

// beatless breaks the connection of each heartbeat that the server gets.
type beatless struct {
	http.Handler

	beats *atomic.Int64
}

func (b beatless) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/Heartbeat") {
		b.beats.Add(1)
		panic(http.ErrAbortHandler)
	}
	b.Handler.ServeHTTP(w, r)
}

// A heartbeat that the server in use does not answer goes to the next one at once, and is no miss.
func TestAHeartbeatGoesToTheNextServerAtOnce(t *testing.T) {
	t.Parallel()
	var broken atomic.Int64
	a := newServerWith(t, func(h http.Handler) http.Handler { return beatless{h, &broken} })
	b := newServer(t)
	var log bytes.Buffer
	k, err := sdk.NewClient(a.url+","+b.url, sdk.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	held := make(chan struct{}, 100)
	w := sdk.NewWorker(k, sdk.Observe(sdk.Hooks{LeaseHeld: func(string, time.Duration) { held <- struct{}{} }}))
	w.Register("mail", func(context.Context, *sdk.Task[[]byte]) error { return nil })
	stop := runtest.Start(t, w.Run)
	<-held // the registration
	<-held // the heartbeat
	stop()
	if broken.Load() != 1 || strings.Contains(log.String(), "heartbeat failed") {
		t.Errorf("%d heartbeats broken: %s", broken.Load(), log.String())
	}
}

// A quota refuses the items beyond it one by one; the client schedules them when the server says.
func TestThrottledItemsAreScheduledLater(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var calls []*kinesinv1.ScheduleRequest
	s.schedule = func(r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
		calls = append(calls, r)
		response := &kinesinv1.ScheduleResponse{}
		for i := range r.Items {
			result := &kinesinv1.ScheduleResult{Id: "k1" + r.Items[i].Key}
			if i >= 2 {
				result = &kinesinv1.ScheduleResult{Problem: &kinesinv1.Problem{
					Reason: kinesinv1.Reason_REASON_THROTTLED, Text: "the quota is used up", RetryAfter: 15_000,
				}}
			}
			response.Results = append(response.Results, result)
		}
		return response, nil
	}
	items := []sdk.Item{{Key: "a"}, {Key: "b"}, {Key: "c"}, {Key: "d"}, {Key: "e"}}
	results, err := s.client(t).ScheduleMany(t.Context(), items)
	if err != nil || len(calls) != 3 {
		t.Fatalf("%d calls, %v", len(calls), err)
	}
	for i := range results {
		if results[i].ID != sdk.ID("k1"+items[i].Key) {
			t.Errorf("item %d: %+v", i, results[i])
		}
	}
	for i, r := range calls {
		if r.Again {
			t.Errorf("call %d says that the outcome of another is not known", i)
		}
	}
}

func TestAThrottledCallEndsWithItsDeadline(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	after, calls := int64(time.Hour/time.Microsecond), 0
	s.schedule = func(*kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
		calls++
		return &kinesinv1.ScheduleResponse{Results: []*kinesinv1.ScheduleResult{{Problem: &kinesinv1.Problem{
			Reason: kinesinv1.Reason_REASON_THROTTLED, Text: "the quota is used up", RetryAfter: after,
		}}}}, nil
	}
	if _, err := s.client(t).Schedule(t.Context(), sdk.Item{}); !errors.Is(err, sdk.ErrThrottled) || !strings.Contains(err.Error(), "the quota is used up") {
		t.Errorf("without a deadline: %v", err)
	}
	after, calls = int64(1500*time.Millisecond/time.Microsecond), 0
	ctx, cancel := context.WithTimeout(t.Context(), 2800*time.Millisecond) // the third call would come after it
	defer cancel()
	if _, err := s.client(t).Schedule(ctx, sdk.Item{}); !errors.Is(err, sdk.ErrThrottled) || calls != 2 {
		t.Errorf("at the deadline: %d calls, %v", calls, err)
	}
	after = 1000
	if _, err := s.client(t, sdk.WithTries(1)).Schedule(t.Context(), sdk.Item{}); !errors.Is(err, sdk.ErrThrottled) {
		t.Errorf("without retries: %v", err)
	}
}

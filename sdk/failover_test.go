package sdk_test

import (
	"bytes"
	"context"
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

package sdktest_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = 24 * time.Hour

// Mail is what the tests' tasks are about.
type Mail struct {
	To string `json:"to"`
}

var sendMail = sdk.NewLambda[Mail]("send-mail")

// sent is what the tests' handlers did, in order.
type sent struct {
	mu  sync.Mutex
	all []delivery
}

type delivery struct {
	to string
	at time.Duration // since the start
}

func (s *sent) add(to string, at time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, delivery{to, at})
}

// want compares, in order.
func (s *sent) want(t *testing.T, want ...delivery) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) != len(want) {
		t.Fatalf("sent %v, want %v", s.all, want)
	}
	for i := range want {
		if s.all[i] != want[i] {
			t.Errorf("sent %v as number %d, want %v", s.all[i], i, want[i])
		}
	}
}

// rig is a Kinesin with a worker whose handler is the test's.
type rig struct {
	*testing.T

	k     *sdktest.Kinesin
	start time.Time
	sent  sent
}

func newRig(t *testing.T, opts ...sdktest.Option) *rig {
	t.Helper()
	k := sdktest.New(t, opts...)
	k.Lambda(sendMail.Name())
	return &rig{T: t, k: k, start: k.Now()}
}

// handle starts a worker. Every start is noted; h decides the outcome, nil is success.
func (r *rig) handle(h func(ctx context.Context, t *sdk.Task[Mail]) error, opts ...sdk.WorkerOption) (stop func()) {
	r.Helper()
	w := sdk.NewWorker(r.k.Client(), opts...)
	sendMail.Handle(w, func(ctx context.Context, t *sdk.Task[Mail]) error {
		r.sent.add(t.Args.To, r.k.Now().Sub(r.start))
		if h == nil {
			return nil
		}
		return h(ctx, t)
	})
	return r.k.Run(w)
}

func (r *rig) schedule(to string, opts ...sdk.Option) sdk.ID {
	r.Helper()
	id, err := sendMail.Schedule(r.Context(), r.k.Client(), Mail{to}, opts...)
	if err != nil {
		r.Fatal(err)
	}
	return id
}

func TestReminderAfterThirtyDays(t *testing.T) {
	began := time.Now()
	r := newRig(t)
	r.handle(nil)
	id := r.schedule("ada", sdk.In(30*day), sdk.Key("reminder-42"))
	sdktest.RequireScheduled(t, r.k, sendMail, sdktest.In(30*day), sdktest.Key("reminder-42"), sdktest.Args(Mail{"ada"}))

	advance := time.Now()
	r.k.Advance(30*day - time.Millisecond)
	r.sent.want(t)
	r.k.Advance(time.Millisecond)
	took := time.Since(advance)

	r.sent.want(t, delivery{"ada", 30 * day})
	info := sdktest.RequireState(t, r.k, id, sdk.StateSuccess)
	if !info.Started.Equal(info.Due) || !info.Ended.Equal(info.Due) || info.Attempt != 1 {
		t.Errorf("started %v, ended %v, due %v, attempt %d", info.Started, info.Ended, info.Due, info.Attempt)
	}
	t.Logf("30 days took %v, the whole test %v", took, time.Since(began))
}

func TestFailuresAreTriedAgainUntilDead(t *testing.T) {
	r := newRig(t)
	r.handle(func(context.Context, *sdk.Task[Mail]) error { return errors.New("no such mailbox") })
	id := r.schedule("ada", sdk.In(time.Hour), sdk.MaxAttempts(4), sdk.Backoff(time.Minute, time.Hour))
	r.k.Advance(time.Hour)
	r.sent.want(t, delivery{"ada", time.Hour})
	sdktest.RequireState(t, r.k, id, sdk.StateRetriableFailure)

	r.k.Advance(day)
	info := sdktest.RequireState(t, r.k, id, sdk.StateDead)
	if info.Failures != 4 || len(info.Attempts) != 4 || info.Attempts[3].Error != "no such mailbox" {
		t.Errorf("%d failures, attempts %+v", info.Failures, info.Attempts)
	}
	for i := 1; i < 4; i++ {
		backoff := info.Attempts[i].Start.Sub(info.Attempts[i-1].End)
		if backoff < time.Minute || backoff > time.Minute<<i {
			t.Errorf("backoff %d is %v, want %v to %v", i, backoff, time.Minute, time.Minute<<i)
		}
		if got := r.sent.all[i].at; !r.start.Add(got).Equal(info.Attempts[i].Start) {
			t.Errorf("attempt %d ran at %v, and its record says %v", i+1, got, info.Attempts[i].Start.Sub(r.start))
		}
	}
}

// Logger gets what the server and the workers log, from its own level on. The server warns of a step whose
// key another task holds.
func TestLogger(t *testing.T) {
	t.Parallel()
	for level, wantsInfo := range map[slog.Level]bool{slog.LevelInfo: true, slog.LevelWarn: false} {
		var log bytes.Buffer
		r := newRig(t, sdktest.Logger(slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: level}))))
		r.handle(nil)
		r.schedule("ada", sdk.Key("k"), sdk.In(day))
		if _, err := sdk.Chain(sendMail.With(Mail{"bob"}), sendMail.With(Mail{"eve"}, sdk.Key("k"))).Schedule(t.Context(), r.k.Client()); err != nil {
			t.Fatal(err)
		}
		r.k.Advance(time.Hour)
		r.k.Close() // nothing is logged any more
		if text := log.String(); !strings.Contains(text, "another task holds its key") || strings.Contains(text, "worker registered") != wantsInfo {
			t.Errorf("from %s on:\n%s", level, text)
		}
	}
}

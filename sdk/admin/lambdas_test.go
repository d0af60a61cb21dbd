package admin_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

// server is a fake Kinesin behind a real HTTP server. A test sets what it answers.
type server struct {
	kinesinv1connect.UnimplementedLambdaServiceHandler
	kinesinv1connect.UnimplementedDeadLetterServiceHandler

	url string

	remove func(*kinesinv1.DeleteLambdaRequest) (*kinesinv1.DeleteLambdaResponse, error)
	count  func(*kinesinv1.CountDeadLettersRequest) (*kinesinv1.CountDeadLettersResponse, error)
	change func(*kinesinv1.ChangeDeadLettersRequest) (*kinesinv1.ChangeDeadLettersResponse, error)

	mu      sync.Mutex
	lambdas map[string]*kinesinv1.Lambda
	fields  []string // of the last update
}

func newServer(t *testing.T) *server {
	t.Helper()
	s, mux, options := &server{lambdas: map[string]*kinesinv1.Lambda{}}, http.NewServeMux(), api.HandlerOptions(api.Hooks{})
	mux.Handle(kinesinv1connect.NewLambdaServiceHandler(s, options...))
	mux.Handle(kinesinv1connect.NewDeadLetterServiceHandler(s, options...))
	h := httptest.NewUnstartedServer(nil)
	h.Config = api.NewServer(mux)
	h.Start()
	t.Cleanup(h.Close)
	s.url = h.URL
	return s
}

func (s *server) client(t *testing.T, opts ...sdk.ClientOption) *admin.Client {
	t.Helper()
	c, err := sdk.NewClient(s.url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return admin.New(c)
}

func unavailable() error { return api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "shutting down") }

func (s *server) CreateLambda(_ context.Context, r *kinesinv1.CreateLambdaRequest) (*kinesinv1.CreateLambdaResponse, error) {
	_, duplicate := s.lambdas[r.Lambda.Name]
	if duplicate {
		return nil, api.ErrExists
	}
	s.lambdas[r.Lambda.Name] = r.Lambda
	return &kinesinv1.CreateLambdaResponse{Lambda: r.Lambda}, nil
}

func (s *server) GetLambda(_ context.Context, r *kinesinv1.GetLambdaRequest) (*kinesinv1.GetLambdaResponse, error) {
	if l := s.lambdas[r.Name]; l != nil {
		return &kinesinv1.GetLambdaResponse{Lambda: l}, nil
	}
	return nil, api.Errorf(kinesinv1.Reason_REASON_UNKNOWN_LAMBDA, "unknown lambda %q", r.Name)
}

func (s *server) ListLambdas(context.Context, *kinesinv1.ListLambdasRequest) (*kinesinv1.ListLambdasResponse, error) {
	response := &kinesinv1.ListLambdasResponse{}
	for _, l := range s.lambdas {
		response.Lambdas = append(response.Lambdas, l)
	}
	return response, nil
}

func (s *server) UpdateLambda(_ context.Context, r *kinesinv1.UpdateLambdaRequest) (*kinesinv1.UpdateLambdaResponse, error) {
	s.fields = r.Fields
	return &kinesinv1.UpdateLambdaResponse{Lambda: r.Lambda}, nil
}

func (s *server) DeleteLambda(_ context.Context, r *kinesinv1.DeleteLambdaRequest) (*kinesinv1.DeleteLambdaResponse, error) {
	return s.remove(r)
}

func TestEnsureTakesTheDefaultsOfTheLambda(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		defaults       []sdk.Option
		settings, want admin.Lambda
	}{
		"nothing": {},
		"all": {
			[]sdk.Option{sdk.MaxAttempts(3), sdk.Timeout(time.Minute), sdk.Backoff(time.Second, time.Hour), sdk.Priority("urgent"), sdk.Collection("c")},
			admin.Lambda{},
			admin.Lambda{MaxAttempts: 3, Timeout: time.Minute, BackoffMin: time.Second, BackoffMax: time.Hour, Priorities: []string{"urgent"}},
		},
		"settings win": {
			[]sdk.Option{sdk.MaxAttempts(3), sdk.Timeout(time.Minute), sdk.Backoff(time.Second, time.Hour), sdk.Priority("urgent")},
			admin.Lambda{MaxAttempts: 5, BackoffMin: time.Minute, Priorities: []string{"now", "later"}},
			admin.Lambda{MaxAttempts: 5, Timeout: time.Minute, BackoffMin: time.Minute, Priorities: []string{"now", "later"}},
		},
		"usual priority": {[]sdk.Option{sdk.Priority("high")}, admin.Lambda{}, admin.Lambda{}},
		"deliver": {
			[]sdk.Option{sdk.MaxAttempts(3), sdk.Priority("urgent")},
			admin.Lambda{Mode: admin.ModeDeliver},
			admin.Lambda{Mode: admin.ModeDeliver, Priorities: []string{"urgent"}},
		},
	} {
		s := newServer(t)
		k := s.client(t)
		if err := k.Lambdas.Ensure(t.Context(), sdk.NewLambda[string](name, c.defaults...), c.settings); err != nil {
			t.Fatal(err)
		}
		got, err := k.Lambdas.Get(t.Context(), name)
		if c.want.Name = name; err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}

func TestLambdas(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := s.client(t, sdkconfig.WithClock(clocktest.NewLeap()))
	if err := c.Lambdas.Ensure(t.Context(), sdk.NewLambda[string]("send-reminder"), admin.Lambda{MaxAttempts: 3, Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	if err := c.Lambdas.Ensure(t.Context(), sdk.NewLambda[string]("send-reminder"), admin.Lambda{MaxAttempts: 5}); err != nil {
		t.Fatal(err)
	}
	l, err := c.Lambdas.Get(t.Context(), "send-reminder")
	if err != nil || l.MaxAttempts != 3 || l.Timeout != time.Minute {
		t.Errorf("got %+v, %v", l, err)
	}
	if _, _, err := c.Lambdas.Create(t.Context(), admin.Lambda{Name: "send-reminder"}); !errors.Is(err, sdk.ErrExists) {
		t.Errorf("create again: %v", err)
	}
	if all, err := c.Lambdas.List(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("list: %v, %v", all, err)
	}
	if l, err := c.Lambdas.Update(t.Context(), admin.Lambda{Name: "send-reminder", MaxAttempts: 9}, admin.LambdaUpdateOptions{}); err != nil || l.MaxAttempts != 9 {
		t.Errorf("update: %+v, %v", l, err)
	}
	reset := admin.LambdaUpdateOptions{Reset: []string{"breaker"}}
	if _, err := c.Lambdas.Update(t.Context(), admin.Lambda{Name: "send-reminder", Timeout: time.Second}, reset); err != nil || !slices.Equal(s.fields, []string{"breaker", "timeout"}) {
		t.Errorf("update of %v: %v", s.fields, err)
	}
	if _, err := c.Lambdas.Update(t.Context(), admin.Lambda{Breaker: admin.Breaker{Failures: 0.5}}, reset); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("a breaker that is set and reset: %v", err)
	}
	tries := 0
	s.remove = func(*kinesinv1.DeleteLambdaRequest) (*kinesinv1.DeleteLambdaResponse, error) {
		if tries++; tries == 1 {
			return nil, unavailable() // done, but the answer is lost
		}
		return nil, api.ErrUnknownLambda
	}
	if _, err := c.Lambdas.Delete(t.Context(), "send-reminder", admin.LambdaDeleteOptions{}); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := c.Lambdas.Delete(t.Context(), "send-reminder", admin.LambdaDeleteOptions{}); !errors.Is(err, sdk.ErrUnknownLambda) {
		t.Errorf("delete again: %v", err)
	}
}

// All settings that an update sets stay when it sets others, and get their defaults again by their names.
func TestSettingsOfALambda(t *testing.T) {
	t.Parallel()
	c := sdktest.New(t).Admin()
	made, _, err := c.Lambdas.Create(t.Context(), admin.Lambda{Name: "mail"})
	if err != nil {
		t.Fatal(err)
	}
	update := func(l admin.Lambda, reset ...string) admin.Lambda {
		t.Helper()
		l.Name = "mail"
		got, err := c.Lambdas.Update(t.Context(), l, admin.LambdaUpdateOptions{Reset: reset})
		if err != nil {
			t.Fatal(err)
		}
		got.Version = made.Version
		return got
	}
	want := made
	want.MaxAttempts, want.Timeout, want.BackoffMin, want.BackoffMax = 3, time.Minute, 2*time.Second, time.Hour
	want.Retention, want.KeyRetention, want.PoisonBound, want.StartWithin = 48*time.Hour, time.Hour, 5, time.Minute
	want.PriorityWeights = map[string]int{"high": 8, "normal": 2, "low": 1}
	want.LimitKeyConcurrency, want.LimitKeyRate, want.RetryShare, want.Breaker = 3, 0.5, 0.2, admin.Breaker{Failures: 0.5, Window: time.Hour}
	want.Target = &admin.Target{URL: "https://a.example/{key}", Method: "PUT", Slots: 7}
	if got := update(want); !reflect.DeepEqual(got, want) { // as it was read, but for what changes
		t.Errorf("set: %+v, want %+v", got, want)
	}
	want.PoisonBound = 7
	if got := update(admin.Lambda{PoisonBound: 7}); !reflect.DeepEqual(got, want) {
		t.Errorf("left: %+v, want %+v", got, want)
	}
	names := slices.DeleteFunc(api.Changeable(&kinesinv1.UpdateLambdaRequest{}), func(name string) bool { return name == "shards" })
	if got := update(admin.Lambda{}, names...); !reflect.DeepEqual(got, made) {
		t.Errorf("reset: %+v, want %+v", got, made)
	}
}

func TestDeleteLambdaCallsUntilAllIsDone(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := s.client(t)
	calls := 0
	s.remove = func(r *kinesinv1.DeleteLambdaRequest) (*kinesinv1.DeleteLambdaResponse, error) {
		if !r.GoesOn || !r.DropTasks || r.Name != "send-reminder" {
			t.Errorf("asked for %v", r)
		}
		switch calls++; calls {
		case 1:
			return &kinesinv1.DeleteLambdaResponse{More: true}, nil
		case 2:
			return nil, unavailable()
		case 3:
			return &kinesinv1.DeleteLambdaResponse{Dropped: 7, More: true}, nil
		case 4:
			return &kinesinv1.DeleteLambdaResponse{Dropped: 5}, nil
		case 5:
			return &kinesinv1.DeleteLambdaResponse{Dropped: 3, More: true}, nil
		}
		return nil, api.ErrInUse
	}
	if n, err := c.Lambdas.Delete(t.Context(), "send-reminder", admin.LambdaDeleteOptions{DropTasks: true}); n != 12 || err != nil {
		t.Errorf("%d dropped, %v", n, err)
	}
	if n, err := c.Lambdas.Delete(t.Context(), "send-reminder", admin.LambdaDeleteOptions{DropTasks: true}); n != 3 || !errors.Is(err, sdk.ErrInUse) {
		t.Errorf("%d dropped, %v; want those before the refusal too", n, err)
	}
	calls = 0
	s.remove = func(*kinesinv1.DeleteLambdaRequest) (*kinesinv1.DeleteLambdaResponse, error) {
		if calls++; calls == 1 {
			return &kinesinv1.DeleteLambdaResponse{Dropped: 1, More: true}, nil
		}
		return nil, api.ErrUnknownLambda // another one came to the end first
	}
	if n, err := c.Lambdas.Delete(t.Context(), "send-reminder", admin.LambdaDeleteOptions{DropTasks: true}); n != 1 || err != nil {
		t.Errorf("%d dropped, %v", n, err)
	}
}

func (s *server) CountDeadLetters(_ context.Context, r *kinesinv1.CountDeadLettersRequest) (*kinesinv1.CountDeadLettersResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count(r)
}

func (s *server) ChangeDeadLetters(_ context.Context, r *kinesinv1.ChangeDeadLettersRequest) (*kinesinv1.ChangeDeadLettersResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.change(r)
}

func movesOf(state string, moved int64) []*kinesinv1.DeadLetterQueue {
	return []*kinesinv1.DeadLetterQueue{{Priority: "high", Name: "q-dlq", Move: &kinesinv1.DeadLetterMove{State: state, Moved: moved, Started: 5_000_000, Problem: "why"}}}
}

// TestRedriveWaitsForMoves: SQS moves messages by itself, and the call tells how far it is.
func TestRedriveWaitsForMoves(t *testing.T) {
	t.Parallel()
	newer := movesOf("running", 1)
	newer[0].Move.Started = 9_000_000
	for _, c := range []struct {
		name   string
		looks  [][]*kinesinv1.DeadLetterQueue
		detach bool
		want   int64
		err    error
	}{
		{"to its end", [][]*kinesinv1.DeadLetterQueue{movesOf("running", 7), movesOf("cancelling", 8), movesOf("completed", 9)}, false, 9, nil},
		{"failed", [][]*kinesinv1.DeadLetterQueue{movesOf("failed", 3)}, false, 3, sdk.ErrUnavailable},
		{"another one began", [][]*kinesinv1.DeadLetterQueue{movesOf("running", 7), newer}, false, 7, nil},
		{"detached", nil, true, 0, nil},
	} {
		s, looks := newServer(t), 0
		s.change = func(r *kinesinv1.ChangeDeadLettersRequest) (*kinesinv1.ChangeDeadLettersResponse, error) {
			if r.Action != "redrive" || r.Lambda != "out" || r.Pace != 5 || looks > 0 {
				return nil, fmt.Errorf("request %v after %d looks", r, looks)
			}
			return &kinesinv1.ChangeDeadLettersResponse{Queues: movesOf("running", 0)}, nil
		}
		s.count = func(*kinesinv1.CountDeadLettersRequest) (*kinesinv1.CountDeadLettersResponse, error) {
			looks++
			return &kinesinv1.CountDeadLettersResponse{Queues: c.looks[looks-1]}, nil
		}
		var told []int64
		got, err := s.client(t, sdkconfig.WithClock(clocktest.NewLeap())).DeadLetters.Redrive(t.Context(), "out", admin.DeadLetterChangeOptions{
			Pace: 5, Detach: c.detach, Progress: func(outcomes map[string]int64) { told = append(told, outcomes["redriven"]) },
		})
		if !errors.Is(err, c.err) || got["redriven"] != c.want || looks != len(c.looks) {
			t.Errorf("%s: %v, %v after %d looks; want %d, %v after %d", c.name, got, err, looks, c.want, c.err, len(c.looks))
		}
		if len(c.looks) > 0 && told[len(told)-1] != c.want {
			t.Errorf("%s: told %v", c.name, told)
		}
	}
}

// TestChangesOfDeadLettersGoOn calls until the server has no more, and adds up.
func TestChangesOfDeadLettersGoOn(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var began []int64
	s.change = func(r *kinesinv1.ChangeDeadLettersRequest) (*kinesinv1.ChangeDeadLettersResponse, error) {
		began = append(began, r.Began)
		outcome := map[string]string{"redrive": "redriven", "delete": "deleted"}[r.Action]
		return &kinesinv1.ChangeDeadLettersResponse{Outcomes: map[string]int64{outcome: 10}, More: len(began) < 3, Began: 77}, nil
	}
	c := s.client(t)
	if got, err := c.DeadLetters.Delete(t.Context(), "out", admin.DeadLetterChangeOptions{}); err != nil || got["deleted"] != 30 || fmt.Sprint(began) != "[0 77 77]" {
		t.Errorf("%v, %v, began %v", got, err, began)
	}
	began = nil
	if got, err := c.DeadLetters.Redrive(t.Context(), "out", admin.DeadLetterChangeOptions{}); err != nil || got["redriven"] != 30 || len(began) != 3 {
		t.Errorf("%v, %v, began %v", got, err, began)
	}
}

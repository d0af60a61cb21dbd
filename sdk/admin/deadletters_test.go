package admin_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

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

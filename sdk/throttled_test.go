package sdk_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
)

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

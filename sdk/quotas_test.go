package sdk_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

func TestQuotasOfTheClient(t *testing.T) {
	t.Parallel()
	k := sdktest.New(t)
	c := k.Client()
	for _, name := range []string{"mail", "pay"} {
		if _, _, err := c.CreateLambda(t.Context(), sdk.LambdaInfo{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := c.CreateLambda(t.Context(), sdk.LambdaInfo{Name: "orders", Mode: sdk.ModeDeliver}); err != nil {
		t.Fatal(err)
	}
	for _, q := range []sdk.Quota{
		{Lambda: "mail", Rate: 100},
		{Lambda: "mail", Priority: "high", Concurrency: 7},
		{Lambda: "mail", Priority: "high", Concurrency: -1},
		{Lambda: "mail", Priority: "low", Rate: 20, Burst: 50},
		{Lambda: "mail", Identity: "crm", Admit: 5},
		{Lambda: "mail", Admit: 500}, // beside the rate
		{Lambda: "pay", Rate: 0.5},
	} {
		got, err := c.SetQuota(t.Context(), q)
		if err != nil || got.Updated.IsZero() || got.UpdatedBy == "" || got.Lambda != q.Lambda || got.Priority != q.Priority || got.Identity != q.Identity {
			t.Errorf("set %+v: %+v %v", q, got, err)
		}
	}
	want := []sdk.Quota{
		{Lambda: "mail", Rate: 100, Admit: 500},
		{Lambda: "mail", Priority: "low", Rate: 20, Burst: 50},
		{Lambda: "mail", Identity: "crm", Admit: 5},
		{Lambda: "pay", Rate: 0.5},
	}
	wantQuotas(t, c, "", want...)
	wantQuotas(t, c, "mail", want[:3]...)
	for _, q := range []sdk.Quota{{Lambda: "mail", Rate: -1}, {Lambda: "mail", Priority: "low", Rate: -1}, {Lambda: "pay", Rate: -1}} {
		if _, err := c.SetQuota(t.Context(), q); err != nil {
			t.Error(err)
		}
	}
	wantQuotas(t, c, "", sdk.Quota{Lambda: "mail", Admit: 500}, want[2])
	for _, bad := range []struct {
		q    sdk.Quota
		says string
	}{
		{sdk.Quota{Lambda: "mail"}, "nothing to set"},
		{sdk.Quota{Lambda: "mail", Rate: 2e6}, "want 0.001 to 1000000"},
		{sdk.Quota{Lambda: "mail", Priority: "urgent", Rate: 1}, "lambda mail has high, normal, low"},
		{sdk.Quota{Lambda: "mail", Priority: "low", Burst: 5}, "there is no rate"},
		{sdk.Quota{Lambda: "mail", Priority: "low", Admit: 5}, "per lambda and identity"},
		{sdk.Quota{Lambda: "mail", Identity: "crm", Rate: 5}, "per lambda and priority"},
		{sdk.Quota{Lambda: "mail", Rate: 1, Burst: 100_001}, "want at most 100000"},
		{sdk.Quota{Lambda: "mail", Concurrency: 100_001}, "want 1 to 100000 tasks that run at once"},
		{sdk.Quota{Lambda: "mail", Identity: "crm", Concurrency: 5}, "concurrency is per lambda and priority"},
		{sdk.Quota{Lambda: "orders", Concurrency: 5}, "lambda orders is a deliver lambda"},
	} {
		if _, err := c.SetQuota(t.Context(), bad.q); !errors.Is(err, sdk.ErrInvalid) || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%+v: %v, want %q", bad.q, err, bad.says)
		}
	}
	if _, err := c.SetQuota(t.Context(), sdk.Quota{Lambda: "nail", Rate: 1}); !errors.Is(err, sdk.ErrUnknownLambda) {
		t.Errorf("of an unknown lambda: %v", err)
	}
}

func wantQuotas(t *testing.T, c *sdk.Client, lambda string, want ...sdk.Quota) {
	t.Helper()
	got, err := c.Quotas(t.Context(), lambda)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		got[i].Updated, got[i].UpdatedBy = time.Time{}, ""
	}
	if len(got) != len(want) {
		t.Fatalf("quotas of %q: %+v, want %+v", lambda, got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("quotas of %q: %+v, want %+v", lambda, got, want)
		}
	}
}

// A lambda that is created again has none of the quotas of the one before.
func TestQuotasEndWithTheirLambda(t *testing.T) {
	t.Parallel()
	c := sdktest.New(t).Client()
	for range 2 {
		if _, _, err := c.CreateLambda(t.Context(), sdk.LambdaInfo{Name: "mail"}); err != nil {
			t.Fatal(err)
		}
		wantQuotas(t, c, "mail")
		wantQuotas(t, c, "")
		if _, err := c.SetQuota(t.Context(), sdk.Quota{Lambda: "mail", Rate: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.DeleteLambda(t.Context(), "mail", false); err != nil {
			t.Fatal(err)
		}
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

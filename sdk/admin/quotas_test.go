package admin_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

func TestQuotasOfTheClient(t *testing.T) {
	t.Parallel()
	k := sdktest.New(t)
	c := k.Admin()
	for _, name := range []string{"mail", "pay"} {
		if _, _, err := c.Lambdas.Create(t.Context(), admin.Lambda{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := c.Lambdas.Create(t.Context(), admin.Lambda{Name: "orders", Mode: admin.ModeDeliver}); err != nil {
		t.Fatal(err)
	}
	for _, q := range []admin.Quota{
		{Lambda: "mail", Rate: 100},
		{Lambda: "mail", Priority: "high", Concurrency: 7},
		{Lambda: "mail", Priority: "low", Rate: 20, Burst: 50},
		{Lambda: "mail", Identity: "crm", Admit: 5},
		{Lambda: "mail", Admit: 500}, // beside the rate
		{Lambda: "pay", Rate: 0.5},
	} {
		got, err := c.Quotas.Set(t.Context(), q, admin.QuotaSetOptions{})
		if err != nil || got.Updated.IsZero() || got.UpdatedBy == "" || got.Lambda != q.Lambda || got.Priority != q.Priority || got.Identity != q.Identity {
			t.Errorf("set %+v: %+v %v", q, got, err)
		}
	}
	reset := func(names ...string) admin.QuotaSetOptions { return admin.QuotaSetOptions{Reset: names} }
	if _, err := c.Quotas.Set(t.Context(), admin.Quota{Lambda: "mail", Priority: "high"}, reset("concurrency")); err != nil {
		t.Error(err)
	}
	want := []admin.Quota{
		{Lambda: "mail", Rate: 100, Admit: 500},
		{Lambda: "mail", Priority: "low", Rate: 20, Burst: 50},
		{Lambda: "mail", Identity: "crm", Admit: 5},
		{Lambda: "pay", Rate: 0.5},
	}
	wantQuotas(t, c, "", want...)
	wantQuotas(t, c, "mail", want[:3]...)
	for _, q := range []admin.Quota{{Lambda: "mail"}, {Lambda: "mail", Priority: "low"}, {Lambda: "pay"}} {
		if _, err := c.Quotas.Set(t.Context(), q, reset("rate")); err != nil {
			t.Error(err)
		}
	}
	wantQuotas(t, c, "", admin.Quota{Lambda: "mail", Admit: 500}, want[2])
	for _, bad := range []struct {
		q    admin.Quota
		says string
	}{
		{admin.Quota{Lambda: "mail"}, "nothing to set"},
		{admin.Quota{Lambda: "mail", Rate: 2e6}, "want 0.001 to 1000000"},
		{admin.Quota{Lambda: "mail", Rate: -1}, "want 0.001 to 1000000"},
		{admin.Quota{Lambda: "mail", Concurrency: -1}, "want 1 to 100000 tasks that run at once"},
		{admin.Quota{Lambda: "mail", Priority: "urgent", Rate: 1}, "lambda mail has high, normal, low"},
		{admin.Quota{Lambda: "mail", Priority: "low", Burst: 5}, "there is no rate"},
		{admin.Quota{Lambda: "mail", Priority: "low", Admit: 5}, "per lambda and identity"},
		{admin.Quota{Lambda: "mail", Identity: "crm", Rate: 5}, "per lambda and priority"},
		{admin.Quota{Lambda: "mail", Rate: 1, Burst: 100_001}, "want at most 100000"},
		{admin.Quota{Lambda: "mail", Concurrency: 100_001}, "want 1 to 100000 tasks that run at once"},
		{admin.Quota{Lambda: "mail", Identity: "crm", Concurrency: 5}, "concurrency is per lambda and priority"},
		{admin.Quota{Lambda: "orders", Concurrency: 5}, "lambda orders is a deliver lambda"},
	} {
		if _, err := c.Quotas.Set(t.Context(), bad.q, admin.QuotaSetOptions{}); !errors.Is(err, sdk.ErrInvalid) || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%+v: %v, want %q", bad.q, err, bad.says)
		}
	}
	if _, err := c.Quotas.Set(t.Context(), admin.Quota{Lambda: "nail", Rate: 1}, admin.QuotaSetOptions{}); !errors.Is(err, sdk.ErrUnknownLambda) {
		t.Errorf("of an unknown lambda: %v", err)
	}
}

func wantQuotas(t *testing.T, c *admin.Client, lambda string, want ...admin.Quota) {
	t.Helper()
	got, err := c.Quotas.List(t.Context(), lambda)
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
	c := sdktest.New(t).Admin()
	for range 2 {
		if _, _, err := c.Lambdas.Create(t.Context(), admin.Lambda{Name: "mail"}); err != nil {
			t.Fatal(err)
		}
		wantQuotas(t, c, "mail")
		wantQuotas(t, c, "")
		if _, err := c.Quotas.Set(t.Context(), admin.Quota{Lambda: "mail", Rate: 1}, admin.QuotaSetOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Lambdas.Delete(t.Context(), "mail", admin.LambdaDeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

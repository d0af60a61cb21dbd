package admin_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

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

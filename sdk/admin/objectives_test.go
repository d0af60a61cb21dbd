package admin_test

import (
	"errors"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

func TestObjectivesOfTheClient(t *testing.T) {
	t.Parallel()
	c := sdktest.New(t).Admin()
	if _, _, err := c.Lambdas.Create(t.Context(), admin.Lambda{Name: "mail"}); err != nil {
		t.Fatal(err)
	}
	set, err := c.Objectives.Set(t.Context(), admin.Objective{Lambda: "mail", Within: 5 * time.Second, Percent: 99, ManagedBy: "billing"})
	if err != nil || set.Window != 30*24*time.Hour || set.Within != 5*time.Second || set.Percent != 99 || set.ManagedBy != "billing" || set.Registered || set.Updated.IsZero() {
		t.Fatalf("%+v, %v", set, err)
	}
	if again, err := c.Objectives.Set(t.Context(), admin.Objective{Lambda: "mail", Within: time.Second, Percent: 99.9, Window: 2 * time.Hour}); err != nil || again.ManagedBy != "" {
		t.Errorf("another one is still of the set: %+v, %v", again, err)
	}
	for _, lambda := range []string{"mail", ""} {
		all, err := c.Objectives.List(t.Context(), lambda)
		if err != nil || len(all) != 1 || all[0].Lambda != "mail" || all[0].Window != 2*time.Hour || all[0].Attained != 100 || all[0].BudgetLeft != 1 || len(all[0].Burns) != 1 {
			t.Errorf("of %q: %+v, %v", lambda, all, err)
		}
	}
	for range 2 {
		if err := c.Objectives.Delete(t.Context(), "mail"); err != nil {
			t.Fatal(err)
		}
	}
	if all, err := c.Objectives.List(t.Context(), ""); err != nil || len(all) != 0 {
		t.Errorf("deleted: %+v, %v", all, err)
	}
	if _, err := c.Objectives.Set(t.Context(), admin.Objective{Lambda: "mail", Within: time.Second, Percent: 100}); !errors.Is(err, sdk.ErrInvalid) {
		t.Errorf("an objective without a budget: %v", err)
	}
	if _, err := c.Objectives.Set(t.Context(), admin.Objective{Lambda: "nail", Within: time.Second, Percent: 99}); !errors.Is(err, sdk.ErrUnknownLambda) {
		t.Errorf("of an unknown lambda: %v", err)
	}
}

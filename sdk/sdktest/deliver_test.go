package sdktest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

func TestDelivered(t *testing.T) {
	t.Parallel()
	k := sdktest.New(t)
	k.Lambda("invoices", admin.Lambda{Mode: admin.ModeDeliver})
	k.Lambda("others", admin.Lambda{Mode: admin.ModeDeliver})
	begin := k.Now()
	schedule := func(lambda string, opts ...sdk.Option) sdk.ID {
		t.Helper()
		id, err := sdk.NewLambda[[]byte](lambda).Schedule(t.Context(), k.Client(), []byte("pay up"), opts...)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	first := schedule("invoices", sdk.In(90*time.Minute), sdk.Priority("high"), sdk.Traceparent(trace))
	keyed := schedule("invoices", sdk.In(2*time.Hour), sdk.Key("k"))
	gone := schedule("invoices", sdk.In(3*time.Hour))
	schedule("others", sdk.In(time.Second))
	now := schedule("invoices")
	k.Advance(0)
	if got := k.Delivered("invoices"); len(got) != 1 || got[0].ID != now {
		t.Errorf("at once: %+v", got)
	}
	if _, err := k.Client().Cancel(t.Context(), gone); err != nil {
		t.Error(err)
	}
	k.Advance(time.Hour)
	if n := len(k.Delivered("invoices")); n != 1 {
		t.Errorf("%d deliveries after an hour", n)
	}
	k.Advance(3 * time.Hour)
	got := k.Delivered("invoices")
	if len(got) != 3 {
		t.Fatalf("%d deliveries, want 3", len(got))
	}
	d := got[1]
	if d.ID != first || d.Lambda != "invoices" || d.Priority != "high" || string(d.Payload) != "pay up" || d.Traceparent != trace ||
		!d.Due.Equal(begin.Add(90*time.Minute)) || !d.At.Equal(d.Due) {
		t.Errorf("%+v", d)
	}
	if got[2].ID != keyed || !got[2].At.Equal(begin.Add(2*time.Hour)) {
		t.Errorf("%+v", got[2])
	}
	for _, id := range []sdk.ID{first, keyed} {
		if info, err := k.Client().Get(t.Context(), id); err != nil || info.State != sdk.StateDelivered {
			t.Errorf("%+v, %v", info, err)
		}
	}
	if _, err := k.Client().Cancel(t.Context(), first); !errors.Is(err, sdk.ErrTooLate) {
		t.Errorf("cancel of a delivered task: %v", err)
	}
}

func ExampleKinesin_Delivered() {
	k := sdktest.Open()
	defer k.Close()
	k.Lambda("invoices", admin.Lambda{Mode: admin.ModeDeliver})
	invoices := sdk.NewLambda[string]("invoices")
	if _, err := invoices.Schedule(context.Background(), k.Client(), "no. 42", sdk.In(24*time.Hour)); err != nil {
		panic(err)
	}
	k.Advance(48 * time.Hour)
	for _, d := range k.Delivered("invoices") {
		fmt.Printf("%s, %v late\n", d.Payload, d.At.Sub(d.Due))
	}
	// Output: "no. 42", 0s late
}

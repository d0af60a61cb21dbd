package admin_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

func Example() {
	k := sdktest.Open()
	defer k.Close()
	ctx, client := context.Background(), k.Client()
	k.Lambda("mail")

	a := admin.New(client) // over the connections of the client, with its credentials and retries
	gate, err := a.Gates.Create(ctx, admin.Gate{Action: admin.GatePause, Lambda: "mail", Reason: "maintenance"})
	if err != nil {
		fmt.Println(err)
		return
	}
	gate, err = a.Gates.Resume(ctx, gate.ID, admin.GateResumeOptions{})
	fmt.Println(gate.State, err)

	_, err = a.Gates.Get(ctx, "77")
	fmt.Println(errors.Is(err, sdk.ErrNotFound))
	// Output:
	// ended <nil>
	// true
}

// An update changes the fields that are not zero, and resets those that are named.
func ExampleLambdas_Update() {
	k := sdktest.Open()
	defer k.Close()
	ctx, client := context.Background(), k.Client()
	k.Lambda("send-reminder")

	changed, err := admin.New(client).Lambdas.Update(ctx, admin.Lambda{Name: "send-reminder", MaxAttempts: 3},
		admin.LambdaUpdateOptions{Reset: []string{"priority_weights", "breaker"}})
	fmt.Println(changed.MaxAttempts, err)
	// Output: 3 <nil>
}

package sdktest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

// SignUps is an application that greets its users after a month.
type SignUps struct {
	client  *sdk.Client
	greeted []string
}

var greet = sdk.NewLambda[string]("greet")

// SignUp schedules what is to happen after a month.
func (s *SignUps) SignUp(ctx context.Context, address string) error {
	_, err := greet.Schedule(ctx, s.client, address, sdk.In(30*24*time.Hour), sdk.Key("greet "+address))
	return err
}

// Work runs until ctx ends.
func (s *SignUps) Work(ctx context.Context) error {
	w := sdk.NewWorker(s.client, sdk.Slots(1))
	greet.Handle(w, func(_ context.Context, t *sdk.Task[string]) error {
		s.greeted = append(s.greeted, t.Args)
		return nil
	})
	return w.Run(ctx)
}

// TestGreetingGoesOutAfterAMonth is what a user's test looks like.
func TestGreetingGoesOutAfterAMonth(t *testing.T) {
	k := sdktest.New(t)
	k.Lambda(greet.Name())
	app := &SignUps{client: k.Client()}
	k.Start(app.Work)

	if err := app.SignUp(t.Context(), "ada@example.org"); err != nil {
		t.Fatal(err)
	}
	task := sdktest.RequireScheduled(t, k, greet, sdktest.Args("ada@example.org"), sdktest.In(30*24*time.Hour))

	k.Advance(30 * 24 * time.Hour) // returns when all that fell due has ended
	sdktest.RequireState(t, k, task.ID, sdk.StateSuccess)
	if len(app.greeted) != 1 {
		t.Errorf("greeted %q", app.greeted)
	}
}

func ExampleKinesin_Sleep() {
	k := sdktest.Open()
	defer k.Close()
	k.Lambda(greet.Name())
	w := sdk.NewWorker(k.Client())
	greet.Handle(w, func(ctx context.Context, _ *sdk.Task[string]) error {
		return k.Sleep(ctx, 10*time.Minute) // code under test is given k.Sleep instead of time.Sleep
	})
	k.Run(w)

	id, err := greet.Schedule(context.Background(), k.Client(), "ada@example.org")
	if err != nil {
		fmt.Println(err)
		return
	}
	k.Advance(9 * time.Minute)
	fmt.Println(k.Task(id).State)
	k.Advance(time.Minute)
	info := k.Task(id)
	fmt.Println(info.State, "after", info.Ended.Sub(info.Started))
	// Output:
	// processing
	// success after 10m0s
}

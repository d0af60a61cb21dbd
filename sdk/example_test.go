package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
)

// Reminder is the argument of SendReminder.
type Reminder struct {
	User int `json:"user"`
}

// SendReminder is declared once, for scheduling and for handling.
var SendReminder = sdk.NewLambda[Reminder]("send-reminder", sdk.MaxAttempts(3), sdk.Backoff(time.Minute, time.Hour))

const day = 24 * time.Hour

// newKinesin is a Kinesin in memory, in virtual time. A program has a server, and a client from
// sdk.NewClient.
func newKinesin() *sdktest.Kinesin {
	k := sdktest.Open(sdktest.StartAt(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)))
	k.Lambda(SendReminder.Name())
	return k
}

func Example() {
	k := newKinesin() // in a program: client, err := sdk.NewClient("http://127.0.0.1:7070")
	defer k.Close()
	ctx, client := context.Background(), k.Client()

	w := sdk.NewWorker(client, sdk.Slots(100))
	SendReminder.Handle(w, func(_ context.Context, t *sdk.Task[Reminder]) error {
		fmt.Printf("user %d is reminded on %s\n", t.Args.User, k.Now().Format(time.DateOnly))
		return nil
	})
	defer k.Run(w)() // in a program: return w.Run(ctx)

	id, err := SendReminder.Schedule(ctx, client, Reminder{User: 42}, sdk.In(30*day), sdk.Key("reminder-42"))
	if err != nil {
		fmt.Println(err)
		return
	}
	k.Advance(30 * day)

	info, err := client.Get(ctx, id)
	fmt.Println(info.State, err)
	// Output:
	// user 42 is reminded on 2030-01-31
	// success <nil>
}

func ExampleLambda_Schedule() {
	k := newKinesin()
	defer k.Close()
	ctx, client := context.Background(), k.Client()

	first, err := SendReminder.Schedule(ctx, client, Reminder{User: 42}, sdk.In(30*day), sdk.Key("reminder-42"))
	if err != nil {
		fmt.Println(err)
		return
	}
	// The key makes the call idempotent: repeat it when you are not sure that it went through.
	again, err := SendReminder.Schedule(ctx, client, Reminder{User: 42}, sdk.In(30*day), sdk.Key("reminder-42"))
	fmt.Println(again == first, err)

	_, err = SendReminder.Schedule(ctx, client, Reminder{User: 43}, sdk.Key("reminder-42"))
	fmt.Println(errors.Is(err, sdk.ErrKeyConflict))
	// Output:
	// true <nil>
	// true
}

func ExampleLambda_ScheduleMany() {
	k := newKinesin()
	defer k.Close()

	results, err := SendReminder.ScheduleMany(context.Background(), k.Client(), []sdk.Call[Reminder]{
		{Args: Reminder{User: 1}, Options: []sdk.Option{sdk.In(day)}},
		{Args: Reminder{User: 2}, Options: []sdk.Option{sdk.In(day), sdk.Priority("urgent")}},
		{Args: Reminder{User: 3}, Options: []sdk.Option{sdk.At(k.Now().Add(2 * day))}},
	})
	fmt.Println("error:", err)
	for i, r := range results {
		fmt.Println(i, r.Err == nil, r.Due.Format(time.DateOnly))
	}
	// Output:
	// error: 1 of 3 tasks were not scheduled; the first is item 1: invalid priority "urgent": lambda send-reminder has high, normal, low
	// 0 true 2030-01-02
	// 1 false 0001-01-01
	// 2 true 2030-01-03
}

func ExampleLambda_Handle() {
	k := newKinesin()
	defer k.Close()

	w := sdk.NewWorker(k.Client())
	SendReminder.Handle(w, func(_ context.Context, t *sdk.Task[Reminder]) error {
		fmt.Printf("attempt %d of %d for user %d\n", t.Attempt, t.MaxAttempts, t.Args.User)
		if t.Attempt == 1 {
			return errors.New("mail server is busy") // tried again after a backoff
		}
		return nil
	}, sdk.Concurrency(10)) // slots of its own, whatever other lambdas do
	defer k.Run(w)()

	_, err := SendReminder.Schedule(context.Background(), k.Client(), Reminder{User: 42}, sdk.In(day))
	fmt.Println("error:", err)
	k.Advance(2 * day)
	// Output:
	// error: <nil>
	// attempt 1 of 3 for user 42
	// attempt 2 of 3 for user 42
}

func ExampleFatal() {
	k := newKinesin()
	defer k.Close()

	w := sdk.NewWorker(k.Client())
	SendReminder.Handle(w, func(_ context.Context, t *sdk.Task[Reminder]) error {
		return sdk.Fatal(fmt.Errorf("user %d does not exist", t.Args.User)) // no retry will help
	})
	defer k.Run(w)()

	id, err := SendReminder.Schedule(context.Background(), k.Client(), Reminder{User: 42}, sdk.In(day))
	if err != nil {
		fmt.Println(err)
		return
	}
	k.Advance(day)
	info := k.Task(id)
	fmt.Printf("%s after %d attempt: %s\n", info.State, len(info.Attempts), info.Attempts[0].Error)
	// Output: fatal_failure after 1 attempt: user 42 does not exist
}

func ExampleSnooze() {
	k := newKinesin()
	defer k.Close()

	w := sdk.NewWorker(k.Client())
	SendReminder.Handle(w, func(context.Context, *sdk.Task[Reminder]) error {
		fmt.Println("called at", k.Now().Format("Mon 15:04"))
		if k.Now().Hour() < 9 {
			return sdk.Snooze(9 * time.Hour) // not at night; this is no failure
		}
		return nil
	})
	defer k.Run(w)()

	id, err := SendReminder.Schedule(context.Background(), k.Client(), Reminder{User: 42}, sdk.In(day))
	if err != nil {
		fmt.Println(err)
		return
	}
	k.Advance(2 * day)
	info := k.Task(id)
	fmt.Println(info.State, "with", info.Failures, "failures")
	// Output:
	// called at Wed 00:00
	// called at Wed 09:00
	// success with 0 failures
}

func ExampleUse() {
	k := newKinesin()
	defer k.Close()

	logged := func(next sdk.Handler) sdk.Handler {
		return func(ctx context.Context, t *sdk.Task[[]byte]) error {
			err := next(ctx, t)
			fmt.Printf("%s %s: %v\n", t.Lambda, t.Payload, err)
			return err
		}
	}
	w := sdk.NewWorker(k.Client(), sdk.Use(logged)) // around every handler
	SendReminder.Handle(w, func(context.Context, *sdk.Task[Reminder]) error { return nil })
	defer k.Run(w)()

	if _, err := SendReminder.Schedule(context.Background(), k.Client(), Reminder{User: 42}); err != nil {
		fmt.Println(err)
	}
	k.Advance(0)
	// Output: send-reminder {"user":42}: <nil>
}

func ExampleClient_Cancel() {
	k := newKinesin()
	defer k.Close()
	ctx, client := context.Background(), k.Client()

	id, err := SendReminder.Schedule(ctx, client, Reminder{User: 42}, sdk.In(day))
	if err != nil {
		fmt.Println(err)
		return
	}
	outcome, err := client.Cancel(ctx, id) // from now on it never starts
	fmt.Println(outcome, err)

	_, err = client.Cancel(ctx, id)
	fmt.Println(errors.Is(err, sdk.ErrTooLate))
	// Output:
	// cancelled <nil>
	// true
}

func Example_ensure() {
	k := sdktest.Open()
	defer k.Close()
	client := k.Client()

	// A program ensures its lambda at its start, so that nobody has to create it by hand.
	err := admin.New(client).Lambdas.Ensure(context.Background(), SendReminder, admin.Lambda{Priorities: []string{"high", "low"}})
	fmt.Println(err)
	// Output: <nil>
}

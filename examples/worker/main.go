// Command worker runs the tasks that the schedule example schedules, until it is stopped.
package main

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"syscall"

	"github.com/kinesin-io/kinesin/examples/reminders"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := work(ctx, "http://127.0.0.1:7070")
	stop()
	if err != nil {
		log.Fatal(err) // a supervisor restarts this process
	}
}

func work(ctx context.Context, server string) error {
	client, err := sdk.NewClient(server)
	if err != nil {
		return err
	}
	if err := admin.New(client).Lambdas.Ensure(ctx, reminders.Send, admin.Lambda{}); err != nil {
		return err
	}
	w := sdk.NewWorker(client, sdk.Slots(10))
	reminders.Send.Handle(w, func(_ context.Context, t *sdk.Task[reminders.Reminder]) error {
		_, err := fmt.Printf("user %d: %s (attempt %d)\n", t.Args.User, t.Args.Text, t.Attempt)
		return err
	})
	return w.Run(ctx) // returns after a drain when ctx ends
}

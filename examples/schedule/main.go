// Command schedule schedules a reminder that is due in three seconds, and waits until it was sent.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/kinesin-io/kinesin/examples/reminders"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

func main() {
	if err := schedule(context.Background(), "http://127.0.0.1:7070"); err != nil {
		log.Fatal(err)
	}
}

func schedule(ctx context.Context, server string) error {
	client, err := sdk.NewClient(server)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := admin.New(client).Lambdas.Ensure(ctx, reminders.Send, admin.Lambda{}); err != nil {
		return err
	}
	id, err := reminders.Send.Schedule(ctx, client, reminders.Reminder{User: 42, Text: "water the plants"}, sdk.In(3*time.Second))
	if err != nil {
		return err
	}
	fmt.Println("scheduled", id)

	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	results, err := client.Wait(ctx, id)
	if err != nil {
		return err
	}
	fmt.Printf("%s, %v after it was due\n", results[0].Task.State, results[0].Task.Lateness())
	return nil
}

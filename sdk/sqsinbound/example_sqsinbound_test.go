package sqsinbound_test

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/sqsinbound"
)

// Reminder is the argument of SendReminder.
type Reminder struct {
	User int `json:"user"`
}

// SendReminder is declared once, for the programs that schedule its tasks and those that handle them.
var SendReminder = sdk.NewLambda[Reminder]("send-reminder", sdk.MaxAttempts(3))

func Example() {
	ctx := context.Background()
	queues, inboundKey := newQueue(ctx) // in a program: sqs.NewFromConfig(cfg), os.Getenv("KINESIN_INBOUND_KEY")

	client, err := sqsinbound.New(queues, "prod", inboundKey)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = client.Close(ctx) }() // sends what still waits

	// The same call as with an sdk.Client; it returns when the task is durable in the queue.
	id, err := SendReminder.Schedule(ctx, client, Reminder{User: 42}, sdk.In(30*24*time.Hour))
	fmt.Println(id[:2], err)

	// Any number at once: they share messages.
	results, err := SendReminder.ScheduleMany(ctx, client, []sdk.Call[Reminder]{{Args: Reminder{User: 1}}, {Args: Reminder{User: 2}}})
	fmt.Println(len(results), err)

	// Whether a key is taken only the store knows.
	_, err = SendReminder.Schedule(ctx, client, Reminder{User: 42}, sdk.Key("reminder-42"))
	fmt.Println(err)
	// Output:
	// q1 <nil>
	// 2 <nil>
	// schedule: key "reminder-42": only the store can say whether a key is taken, so schedule a task with a key through an sdk.Client
}

// newQueue returns a queue in memory and a key, as an installation has them.
func newQueue(ctx context.Context) (queues sqsinbound.API, inboundKey string) {
	service, name := fakesqs.New(fakesqs.Config{}), "prod-inbound"
	if _, err := service.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name}); err != nil {
		fmt.Println(err)
	}
	return service, key
}

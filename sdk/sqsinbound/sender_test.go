//go:build !windows

package sqsinbound_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sqsinbound"
	"github.com/kinesin-io/kinesin/task"
)

// A message of a sender has tasks of one lambda, so that one outside its lambdas keeps no others back.
func TestASenderPacksByLambda(t *testing.T) {
	run(t, nil, func(f *fixture) {
		shop := task.InboundSender{Name: "shop", Salt: make([]byte, task.SenderSaltBytes), Lambdas: []string{"mail"}}
		ring, err := task.NewKeyring(task.Ring{
			Keys: []task.Key{{Number: 9, Secret: bytes.Repeat([]byte{9}, task.TokenKeyBytes)}}, Seals: 9, Senders: []task.InboundSender{shop},
		})
		if err != nil {
			t.Fatal(err)
		}
		c, err := sqsinbound.New(f.sqs, "prod", ring.SenderKeyText(&shop), sqsinbound.WithClock(f.time.Process(1)))
		if err != nil {
			t.Fatal(err)
		}
		f.during(time.Second, func() {
			items := make([]sdk.Item, 30)
			for i := range items {
				items[i].Lambda = "mail"
				if i >= 20 {
					items[i].Lambda = "pay"
				}
			}
			results, err := c.ScheduleMany(f.t.Context(), items)
			if err != nil || !strings.HasPrefix(string(results[0].ID), "q2") {
				t.Errorf("%v, %v", results, err)
			}
			if err := c.Close(f.t.Context()); err != nil {
				t.Error(err)
			}
		})
		var good, bad int
		for {
			out, err := f.sqs.ReceiveMessage(f.t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: &f.url, MaxNumberOfMessages: 10})
			if err != nil {
				t.Fatal(err)
			}
			if len(out.Messages) == 0 {
				break
			}
			for _, m := range out.Messages {
				e, err := envelope.Open(t.Context(), ring.Inbound(), *m.Body)
				if err != nil {
					bad++
				}
				good += len(e.GetTasks())
			}
		}
		if good != 20 || bad != 1 {
			t.Errorf("%d tasks may be taken, %d messages not", good, bad)
		}
	})
}

// A sender schedules through real SQS calls until it is revoked.
func TestFlowOfASender(t *testing.T) {
	t.Parallel()
	endpoints := awslocal.Start(t)
	queues, prefix := awssqs.NewFromConfig(endpoints.Config(t)), endpoints.Prefix(t)
	server := serve(t, queues, prefix, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	greet := sdk.NewLambda[int]("greet")
	if err := admin.New(server).Lambdas.Ensure(ctx, greet, admin.Lambda{}); err != nil {
		t.Fatal(err)
	}
	key, err := admin.New(server).Senders.Key(ctx, "shop", "gree*")
	if err != nil {
		t.Fatal(err)
	}
	direct, err := sqsinbound.New(queues, prefix, key)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := direct.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	state := func(id sdk.ID) string {
		got, err := server.Get(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return got.State.String()
	}
	first, err := greet.Schedule(ctx, direct, 1, sdk.In(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	for state(first) != "scheduled" {
		if ctx.Err() != nil {
			t.Fatal("it is not taken")
		}
		time.Sleep(50 * time.Millisecond)
	}
	if _, err := admin.New(server).Senders.Revoke(ctx, "shop"); err != nil {
		t.Fatal(err)
	}
	second, err := greet.Schedule(ctx, direct, 2, sdk.In(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	if state(second) == "scheduled" || state(first) != "scheduled" {
		t.Errorf("%s, %s", state(first), state(second))
	}
	if senders, err := admin.New(server).Senders.List(ctx); err != nil || len(senders) != 1 || senders[0].Revoked.IsZero() || senders[0].Lambdas[0] != "gree*" {
		t.Errorf("%+v, %v", senders, err)
	}
}

package sqs_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/task"
)

func deliverLambda(name string, ref uint32) task.Lambda {
	return task.Lambda{Name: name, Ref: ref, Mode: task.Deliver, Priorities: []string{"high", "low"}}.WithDefaults()
}

func TestQueuesOfALambda(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(sqs.Queues("kin", deliverLambda("mail", 1))[:2])
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"kin-mail-high-dlq","message_retention_seconds":1209600,"sqs_managed_sse":true},` +
		`{"name":"kin-mail-high","message_retention_seconds":1209600,"sqs_managed_sse":true,` +
		`"dead_letter_queue":"kin-mail-high-dlq","max_receive_count":10}]`
	if string(text) != want {
		t.Errorf("queues of a lambda in deliver mode:\n%s\nwant\n%s", text, want)
	}
	managed := sqs.Queues("kin", task.Lambda{Name: "mail"}.WithDefaults())
	if len(managed) != 3 || managed[1].Name != "kin-mail-normal" || managed[1].DeadLetterQueue != "" || managed[1].VisibilityTimeoutSeconds != 30 {
		t.Errorf("queues of a managed lambda: %+v", managed)
	}
}

func TestCheckLambda(t *testing.T) {
	t.Parallel()
	all := &lambdas{}
	all.add(task.Lambda{Name: "a-b", Ref: 1, Priorities: []string{"c"}})
	all.add(task.Lambda{Name: "out", Ref: 2, Mode: task.Deliver, Priorities: []string{"c"}})
	d := sqs.New(fakesqs.New(fakesqs.Config{}), sqs.Config{Prefix: "kin", Codec: sqs.StoreCodec, Lambda: all.get, Lambdas: all.list})
	for _, c := range []struct {
		lambda task.Lambda
		want   string // part of the refusal; empty for none
	}{
		{task.Lambda{Name: "a", Priorities: []string{"b", "d"}}, ""},
		{task.Lambda{Name: "a-b", Priorities: []string{"c"}}, ""}, // itself
		{task.Lambda{Name: "a", Priorities: []string{"d", "b-c"}}, "kin-a-b-c would be one of lambda a-b"},
		{task.Lambda{Name: "out-c", Priorities: []string{"dlq"}}, "one of lambda out"},
		{task.Lambda{Name: "x", Mode: task.Deliver, Priorities: []string{"h", "h-dlq"}}, "another one of its own"},
		{task.Lambda{Name: "inbound", Priorities: []string{"dlq"}}, "inbound buffer"},
		{task.Lambda{Name: strings.Repeat("n", 64), Priorities: []string{"normal"}}, ""},
		{task.Lambda{Name: strings.Repeat("n", 64), Priorities: []string{"priority-of-it"}}, "may have 80"},
		{task.Lambda{Name: strings.Repeat("n", 64), Mode: task.Deliver, Priorities: []string{"normally"}}, "may have 80"},
	} {
		err := d.CheckLambda(c.lambda)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%v is refused: %v", c.lambda.Name, err)
		case c.want != "" && (!errors.Is(err, task.ErrInvalid) || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%v with %v: %v, want %q", c.lambda.Name, c.lambda.Priorities, err, c.want)
		}
	}
}

func TestCheckLambdaAgainstPlannedOnes(t *testing.T) {
	t.Parallel()
	d := sqs.New(fakesqs.New(fakesqs.Config{}), sqs.Config{Prefix: "kin", Codec: sqs.StoreCodec, Lambdas: func() []task.Lambda { return nil }})
	eu, orders := task.Lambda{Name: "orders-eu", Priorities: []string{"high"}}, task.Lambda{Name: "orders", Priorities: []string{"low", "eu-high"}}
	if err := d.CheckLambda(orders, orders); err != nil {
		t.Errorf("against itself: %v", err)
	}
	err := d.CheckLambda(eu, orders)
	if !errors.Is(err, task.ErrInvalid) || !strings.Contains(err.Error(), "lambda orders-eu: its SQS queue kin-orders-eu-high would be one of lambda orders;") {
		t.Errorf("against another of that name: %v", err)
	}
}

func TestProvisionAndCheck(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (api sqs.API, prefix string){
		"fake": func(*testing.T) (sqs.API, string) { return fakesqs.New(fakesqs.Config{}), "kin" },
		"ElasticMQ": func(t *testing.T) (sqs.API, string) {
			t.Helper()
			l := onElasticMQ(t)
			return l.api, l.prefix
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, prefix := open(t)
			specs := slices.Concat(sqs.Queues(prefix, deliverLambda("mail", 1)), sqs.Queues(prefix, task.Lambda{Name: "job"}.WithDefaults()))
			missing, err := sqsclient.Check(t.Context(), api, specs)
			if err != nil || len(missing) != len(specs) || !strings.Contains(missing[0].String(), "is missing") {
				t.Fatalf("check of nothing: %v, %v", missing, err)
			}
			made, err := sqsclient.Create(t.Context(), api, specs)
			if err != nil || len(made) != len(specs) {
				t.Fatalf("made %v, %v", made, err)
			}
			if again, err := sqsclient.Create(t.Context(), api, specs); err != nil || len(again) > 0 {
				t.Errorf("the second time made %v, %v", again, err)
			}
			if left, err := sqsclient.Check(t.Context(), api, specs); err != nil || len(left) > 0 {
				t.Errorf("check of what was made: %v, %v", left, err)
			}
			changeRedrive(t, api, specs[1].Name)
			different, err := sqsclient.Check(t.Context(), api, specs)
			if err != nil || len(different) != 1 || !strings.Contains(different[0].String(), "to "+specs[0].Name+" after 10 receives") {
				t.Errorf("check of another redrive: %v, %v", different, err)
			}
			if changed, err := sqsclient.Align(t.Context(), api, specs); err != nil || len(changed) != 1 {
				t.Errorf("aligned %v, %v", changed, err)
			}
			if left, err := sqsclient.Check(t.Context(), api, specs); err != nil || len(left) > 0 {
				t.Errorf("check of what was aligned: %v, %v", left, err)
			}
		})
	}
}

// changeRedrive makes messages of a queue go to its dead-letter queue after 3 receives.
func changeRedrive(t *testing.T, api sqs.API, queue string) {
	t.Helper()
	at, err := api.GetQueueUrl(t.Context(), &awssqs.GetQueueUrlInput{QueueName: &queue})
	if err != nil {
		t.Fatal(err)
	}
	have, err := api.GetQueueAttributes(t.Context(), &awssqs.GetQueueAttributesInput{QueueUrl: at.QueueUrl, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
	if err != nil {
		t.Fatal(err)
	}
	var policy map[string]any
	if err := json.Unmarshal([]byte(have.Attributes["RedrivePolicy"]), &policy); err != nil {
		t.Fatal(err)
	}
	policy["maxReceiveCount"] = 3
	changed, err := json.Marshal(policy)
	if err != nil {
		t.Fatal(err)
	}
	_, err = api.SetQueueAttributes(t.Context(), &awssqs.SetQueueAttributesInput{QueueUrl: at.QueueUrl, Attributes: map[string]string{"RedrivePolicy": string(changed)}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestProvisionWhereQueuesMayNotBeMade(t *testing.T) {
	t.Parallel()
	service := fakesqs.New(fakesqs.Config{})
	all := &lambdas{}
	d := sqs.New(service, sqs.Config{Prefix: "kin", Codec: sqs.StoreCodec, Lambda: all.get, Lambdas: all.list})
	mail := deliverLambda("mail", 1)
	if _, err := sqsclient.Create(t.Context(), service, sqs.Queues("kin", mail)[:2]); err != nil {
		t.Fatal(err)
	}
	service.Faults.Odds("CreateQueue", awsfake.Denied, 1)
	err := d.Provision(t.Context(), mail)
	if err == nil || !strings.Contains(err.Error(), "missing: kin-mail-low-dlq, kin-mail-low") || strings.Contains(err.Error(), "kin-mail-high") {
		t.Errorf("with two queues missing: %v", err)
	}
	if names, err := d.Missing(t.Context(), mail); err != nil || !slices.Equal(names, []string{"kin-mail-low-dlq", "kin-mail-low"}) {
		t.Errorf("missing: %q, %v", names, err)
	}
	service.Faults.Off()
	if err := d.Provision(t.Context(), mail); err != nil {
		t.Fatal(err)
	}
	service.Faults.Odds("CreateQueue", awsfake.Denied, 1)
	if err := d.Provision(t.Context(), mail); err != nil {
		t.Errorf("with all queues there: %v", err)
	}
	if names, err := d.Missing(t.Context(), mail); err != nil || len(names) != 0 {
		t.Errorf("missing of all that are there: %q, %v", names, err)
	}
}

// A message that a consumer never deletes goes to the dead-letter queue; others do not.
func TestDeliveriesGoToTheDeadLetterQueue(t *testing.T) {
	t.Parallel()
	l := onElasticMQ(t)
	d, _ := l.open(nil)
	lambda := l.create(d, deliverLambda("out", 9))
	for i := range 2 {
		if err := d.Deliver(t.Context(), deliveryOf(lambda, i, []byte{'0' + byte(i)}))[0]; err != nil {
			t.Fatal(err)
		}
	}
	url := l.url("out-high")
	seen := 0
	for range 40 * sqs.DeliverReceivesMax {
		got, err := l.api.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 1, VisibilityTimeout: 1, WaitTimeSeconds: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Messages) == 0 {
			break
		}
		m := got.Messages[0]
		if *m.Body == "1" {
			_, err = l.api.DeleteMessage(t.Context(), &awssqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle})
		} else {
			seen++
			_, err = l.api.ChangeMessageVisibility(t.Context(), &awssqs.ChangeMessageVisibilityInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 0})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	dead, err := l.api.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: l.url("out-high-dlq"), MaxNumberOfMessages: 10, WaitTimeSeconds: 5})
	if err != nil || len(dead.Messages) != 1 || *dead.Messages[0].Body != "0" {
		t.Errorf("dead letters %+v, %v", dead, err)
	}
	if seen != sqs.DeliverReceivesMax {
		t.Errorf("a consumer had it %d times, want %d", seen, sqs.DeliverReceivesMax)
	}
}

func (l *local) url(queue string) *string {
	l.Helper()
	out, err := l.api.GetQueueUrl(l.Context(), &awssqs.GetQueueUrlInput{QueueName: aws.String(l.prefix + "-" + queue)})
	if err != nil {
		l.Fatal(err)
	}
	return out.QueueUrl
}

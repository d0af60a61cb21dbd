package aws_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/kinesin-io/kinesin/internal/runtest"
)

// registeredMax is how long a registration may take to become what it says, on a busy machine.
const registeredMax = time.Minute

// register puts the row of a registration, as the Terraform module does: format 1, version 1, and the JSON.
func (s site) register(name, value string) {
	s.T.Helper()
	row := append([]byte{1, 0, 0, 0, 0, 0, 0, 0, 1}, value...)
	_, err := dynamodb.NewFromConfig(s.AWS.Config(s.T)).PutItem(s.T.Context(), &dynamodb.PutItemInput{
		TableName: aws.String(s.AWS.Prefix + "-control"),
		Item: map[string]types.AttributeValue{
			"c": &types.AttributeValueMemberS{Value: "registration"}, "n": &types.AttributeValueMemberS{Value: name},
			"q": &types.AttributeValueMemberN{Value: "1"}, "r": &types.AttributeValueMemberB{Value: row},
		},
	})
	if err != nil {
		s.T.Fatal(err)
	}
}

func (s site) makeQueue(name string) {
	s.T.Helper()
	if _, err := s.sqs().CreateQueue(s.T.Context(), &sqs.CreateQueueInput{QueueName: aws.String(s.AWS.Prefix + "-" + name)}); err != nil {
		s.T.Fatal(err)
	}
}

// until waits for something to become so.
func (s site) until(what string, so func() bool) {
	s.T.Helper()
	runtest.Eventually(s.T, registeredMax, what, so)
}

// TestRegistered is a lambda as Terraform makes it: its row first, then its queues, then a change that cannot
// be, then a start without its queue, which must not keep all others from starting.
func TestRegistered(t *testing.T) {
	s := newSite(t)
	s.AWS.Setup(t).Must(t)
	server := s.Serve()
	s.register("bills", `{"format":2,"priorities":["one","two"],"max_attempts":3}`)
	s.makeQueue("bills-one")
	s.until("the server says which queue it waits for", func() bool {
		return strings.Contains(server.Stderr(), "queues are not there yet: "+s.AWS.Prefix+"-bills-two")
	})
	if got := server.Run("lambda", "get", "bills"); got.Code != 1 || !strings.Contains(got.Stderr, "bills") {
		t.Errorf("before its queues: %+v", got)
	}
	s.makeQueue("bills-two")
	var got struct {
		Registered  bool
		MaxAttempts int `json:"max_attempts"`
	}
	s.until("lambda bills is there", func() bool {
		r := server.Run("lambda", "get", "bills", "-o", "json")
		if r.Code == 0 {
			r.JSON(t, &got)
		}
		return r.Code == 0
	})
	if !got.Registered || got.MaxAttempts != 3 {
		t.Errorf("it is %+v", got)
	}
	server.Run("lambda", "delete", "bills", "--drop").Refused(t, 1, "is registered", "Terraform",
		`aws dynamodb delete-item --table-name `+s.AWS.Prefix+`-control --key '{"c":{"S":"registration"},"n":{"S":"bills"}}'`)
	if said := server.Run("lambda", "set", "bills", "--max-attempts", "5"); !strings.Contains(said.Stderr, "until its registration changes") {
		t.Errorf("update says %+v", said)
	}
	s.register("bills", `{"format":2,"priorities":["one"]}`)
	s.until("the server says what is fixed", func() bool { return strings.Contains(server.Stderr(), "fixed at creation") })

	if _, text := server.Fetch("/metrics"); !strings.Contains(text, `kinesin_registrations{outcome="refused"} 1`) {
		t.Error("the metrics do not say that a registration is refused")
	}
	if text := server.Run("lambda", "get", "bills").Must(t); !strings.Contains(text, "by Terraform, refused: mode, fifo and priorities are fixed at creation, and shards only grow") {
		t.Errorf("get does not say that it is refused:\n%s", text)
	}

	server.Shutdown()
	s.deleteQueue("bills-two")
	server = s.Serve()
	server.Run("lambda", "get", "bills").Must(t)
	if text := "SQS queue " + s.AWS.Prefix + "-bills-two is missing"; !strings.Contains(server.Stderr(), text) {
		t.Errorf("the start does not say %q:\n%s", text, server.Stderr())
	}
	server.Run("lambda", "delete", "bills").Must(t) // and need not wait until servers do so
	s.until("lambda bills is there anew", func() bool {
		got := server.Run("lambda", "get", "bills")
		return got.Code == 0 && regexp.MustCompile(`priorities +one\n`).MatchString(got.Stdout) && !strings.Contains(got.Stdout, "refused")
	})
}

// unregister deletes the row of a registration, as Terraform does and as the refusal to delete its lambda
// says.
func (s site) unregister(name string) {
	s.T.Helper()
	_, err := dynamodb.NewFromConfig(s.AWS.Config(s.T)).DeleteItem(s.T.Context(), &dynamodb.DeleteItemInput{
		TableName: aws.String(s.AWS.Prefix + "-control"),
		Key:       map[string]types.AttributeValue{"c": &types.AttributeValueMemberS{Value: "registration"}, "n": &types.AttributeValueMemberS{Value: name}},
	})
	if err != nil {
		s.T.Fatal(err)
	}
}

// TestWithdrawn is a lambda whose module call was taken out while it had tasks: its registration and its
// queue are gone. Setup leaves the queue to Terraform, the servers say what to do and do not repeat it, and
// the lambda can be given up.
func TestWithdrawn(t *testing.T) {
	s := newSite(t)
	s.AWS.Setup(t).Must(t)
	server := s.Serve()
	s.makeQueue("bills-one")
	s.register("bills", `{"format":2,"priorities":["one"],"shards":4}`)
	s.until("lambda bills is there", func() bool { return server.Run("lambda", "get", "bills").Code == 0 })
	s.wantSetup("bills-one", "unchanged")
	_, err := s.sqs().SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{
		QueueUrl: s.queue("bills-one"), Attributes: map[string]string{"VisibilityTimeout": "45"},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.wantSetup("bills-one", "differs") // and does not align it
	for _, in := range []string{"2s", "3s", "4s", "1h"} {
		server.Run("schedule", "bills", "--in", in).Must(t)
	}
	s.unregister("bills")
	s.deleteQueue("bills-one")
	if got := server.Run("lambda", "get", "bills").Must(t); !strings.Contains(got, "withdrawn: deleted when its tasks have ended") {
		t.Errorf("get says %s", got)
	}
	s.wantSetup("bills-one", "missing") // and does not make it
	server.Run("schedule", "bills", "--in", "1s").Must(t)

	const advice = "to give the lambda up instead: `kinesin lambda delete bills --drop`"
	s.until("the server says what to do", func() bool { return strings.Contains(server.Stderr(), advice) })
	time.Sleep(20 * time.Second) // in which each of the four shards tries several times
	if n := strings.Count(server.Stderr(), advice); n > 2 {
		t.Errorf("it says so %d times:\n%s", n, server.Stderr())
	}
	if strings.Contains(server.Stderr(), "aws setup") {
		t.Errorf("it says what must not be done:\n%s", server.Stderr())
	}
	server.Shutdown()
	server = s.Serve()
	server.Run("lambda", "delete", "bills", "--drop").Must(t)
	if text := server.Stderr(); strings.Contains(text, "differs from what setup makes") {
		t.Errorf("the start complains of queues that are to be gone:\n%s", text)
	}
	if got := server.Run("lambda", "get", "bills"); got.Code != 1 {
		t.Errorf("after it was given up: %+v", got)
	}
}

// wantSetup runs a setup that makes things and checks what it says of one of Terraform's queues.
func (s site) wantSetup(queue, outcome string) {
	s.T.Helper()
	for range 2 { // what it did once it would not do again
		if got := s.items(s.AWS.Setup(s.T, "-o", "json"))[queue]; got != outcome {
			s.T.Errorf("setup says that %s is %q, want %q", queue, got, outcome)
		}
	}
	if got := s.AWS.Setup(s.T).Must(s.T); !strings.Contains(got, outcome+": managed by Terraform") {
		s.T.Errorf("setup does not say whose queue %s is:\n%s", queue, got)
	}
}

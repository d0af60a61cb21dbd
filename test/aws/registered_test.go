package aws_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

// registeredMax is how long a registration may take to become what it says, on a busy machine.
const registeredMax = time.Minute

// register puts the row of a registration, as the Terraform module does: format 1, version 1, and the JSON.
func (s *site) register(name, value string) {
	s.t.Helper()
	row := append([]byte{1, 0, 0, 0, 0, 0, 0, 0, 1}, value...)
	_, err := dynamodb.NewFromConfig(s.aws.Config(s.t)).PutItem(s.t.Context(), &dynamodb.PutItemInput{
		TableName: aws.String(s.prefix + "-control"),
		Item: map[string]types.AttributeValue{
			"c": &types.AttributeValueMemberS{Value: "registration"}, "n": &types.AttributeValueMemberS{Value: name},
			"q": &types.AttributeValueMemberN{Value: "1"}, "r": &types.AttributeValueMemberB{Value: row},
		},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) makeQueue(name string) {
	s.t.Helper()
	if _, err := s.sqs().CreateQueue(s.t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(s.prefix + "-" + name)}); err != nil {
		s.t.Fatal(err)
	}
}

// until waits for something to become so.
func (s *site) until(what string, so func() bool) {
	s.t.Helper()
	for deadline := time.Now().Add(registeredMax); !so(); {
		if time.Now().After(deadline) {
			s.t.Fatalf("not after %v: %s", registeredMax, what)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// TestRegistered is a lambda as Terraform makes it: its row first, then its queues, then a change that cannot be, then a start
// without its queue, which must not keep all others from starting.
func TestRegistered(t *testing.T) {
	s := newSite(t)
	s.setup().Must(t)
	server := s.serve()
	s.register("bills", `{"format":1,"priorities":["one","two"],"max_attempts":3}`)
	s.makeQueue("bills-one")
	s.until("the server says which queue it waits for", func() bool {
		return strings.Contains(server.Stderr(), "queues are not there yet: "+s.prefix+"-bills-two")
	})
	if got := s.run(0, "lambda", "get", "bills"); got.Code != 1 || !strings.Contains(got.Stderr, "bills") {
		t.Errorf("before its queues: %+v", got)
	}
	s.makeQueue("bills-two")
	var got struct {
		Registered  bool
		MaxAttempts int `json:"max_attempts"`
	}
	s.until("lambda bills is there", func() bool {
		r := s.kinesin(nil, "lambda", "get", "bills", "-o", "json", "--server", server.URL)
		if r.Code == 0 {
			r.JSON(t, &got)
		}
		return r.Code == 0
	})
	if !got.Registered || got.MaxAttempts != 3 {
		t.Errorf("it is %+v", got)
	}
	s.run(0, "lambda", "delete", "bills", "--drop").Refused(t, 1, "is registered", "Terraform")
	if said := s.run(0, "lambda", "update", "bills", "--max-attempts", "5"); !strings.Contains(said.Stderr, "until its registration changes") {
		t.Errorf("update says %+v", said)
	}
	s.register("bills", `{"format":1,"priorities":["one"]}`)
	s.until("the server says what is fixed", func() bool { return strings.Contains(server.Stderr(), "fixed at creation") })

	server.Shutdown()
	s.deleteQueue("bills-two")
	server = s.serve()
	s.run(1, "lambda", "get", "bills").Must(t)
	if text := "SQS queue " + s.prefix + "-bills-two is missing"; !strings.Contains(server.Stderr(), text) {
		t.Errorf("the start does not say %q:\n%s", text, server.Stderr())
	}
}

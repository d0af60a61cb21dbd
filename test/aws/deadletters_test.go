package aws_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// bury receives the messages of a queue and does not delete them, until so many are on its dead-letter queue.
func (s site) bury(queue string, want int) {
	s.T.Helper()
	url := s.queue(queue)
	s.until(fmt.Sprintf("%d messages of %s are dead", want, queue), func() bool {
		out, err := s.sqs().ReceiveMessage(s.T.Context(), &sqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10, VisibilityTimeout: 1})
		if err != nil {
			s.T.Fatal(err)
		}
		for i := range out.Messages {
			if _, err := s.sqs().ChangeMessageVisibility(s.T.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: url, ReceiptHandle: out.Messages[i].ReceiptHandle}); err != nil {
				s.T.Fatal(err)
			}
		}
		have, err := s.sqs().GetQueueAttributes(s.T.Context(), &sqs.GetQueueAttributesInput{QueueUrl: s.queue(queue + "-dlq"), AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
		return err == nil && have.Attributes["ApproximateNumberOfMessages"] == fmt.Sprint(want)
	})
}

// The commands for tasks show, count, give back and delete messages that consumers fail too often.
func TestDeadLettersOfADeliverLambda(t *testing.T) {
	s := newSite(t)
	s.AWS.Setup(t).Must(t)
	server := s.Serve()
	server.Run("lambda", "create", "out", "--mode", "deliver", "--priorities", "one,two").Must(t)
	server.Run("lambda", "create", "work").Must(t)
	dead := func(command string, args ...string) []string {
		return append([]string{"dead-letter", command, "out", "-o", "json"}, args...)
	}
	ids := map[string]string{}
	for n := range 12 {
		payload := fmt.Sprintf(`{"n":%d}`, n)
		ids[server.Run("schedule", "out", "--priority", "one", "--payload", payload).Must(t)] = payload
	}
	s.bury("out-one", 12)

	var listed struct {
		Messages []struct {
			ID, Priority, Due, Sent string
			Payload                 json.RawMessage
		}
	}
	for range 2 { // looking changes nothing
		server.Run(dead("list", "--payload")...).JSON(t, &listed)
		for _, l := range listed.Messages {
			if ids[l.ID] == "" || ids[l.ID] != string(l.Payload) || l.Priority != "one" || l.Due == "" || l.Sent == "" {
				t.Errorf("listed %+v", l)
			}
		}
		if n := len(listed.Messages); n != 12 {
			t.Errorf("%d listed, want 12", n)
		}
	}
	var counted struct {
		Count  int
		Queues []struct {
			Name  string
			Count int
			Move  struct{ State string }
		}
	}
	count := func(want int) {
		t.Helper()
		server.Run(dead("count")...).JSON(t, &counted)
		if counted.Count != want || len(counted.Queues) != 2 || counted.Queues[0].Name != s.AWS.Prefix+"-out-one-dlq" {
			t.Errorf("counted %+v, want %d", counted, want)
		}
	}
	count(12)
	if text := server.Run("dead-letter", "redrive", "out", "--dry-run").Must(t); !strings.Contains(text, "about 12 messages") {
		t.Errorf("a dry run says %s", text)
	}
	count(12)

	var changed struct{ Outcomes map[string]int }
	server.Run(dead("redrive", "--pace", "400")...).JSON(t, &changed)
	if changed.Outcomes["redriven"] != 12 {
		t.Errorf("redrive: %+v", changed)
	}
	count(0)
	if counted.Queues[0].Move.State != "completed" {
		t.Errorf("the move is %+v", counted.Queues[0])
	}
	s.bury("out-one", 12) // they are on the queue again
	server.Run(dead("delete", "--priority", "two")...).Must(t)
	count(12)
	server.Run(dead("delete", "--pace", "400")...).JSON(t, &changed)
	if changed.Outcomes["deleted"] != 12 {
		t.Errorf("delete: %+v", changed)
	}
	count(0)
	server.Run("schedule", "out", "--priority", "two").Must(t)
	s.bury("out-two", 1)
	server.Run(dead("delete", "--purge")...).Must(t)
	count(0)

	if r := server.Run("dead-letter", "list", "work"); r.Code != 1 || !strings.Contains(r.Stderr, "lambda=work and state=dead") {
		t.Errorf("a managed lambda: %+v", r)
	}
	audit := server.Run("audit", "list").Must(t)
	for _, action := range []string{"deadletter.redrive", "deadletter.delete", "deadletter.read_payload"} {
		if !strings.Contains(audit, action) {
			t.Errorf("the audit log has no %s:\n%s", action, audit)
		}
	}
}

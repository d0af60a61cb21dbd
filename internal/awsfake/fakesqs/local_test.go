package fakesqs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/awslocal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(awslocal.Main(m)) }

// api is what both have: messages and queues.
type api interface {
	queues

	SendMessage(context.Context, *sqs.SendMessageInput, ...func(*sqs.Options)) (*sqs.SendMessageOutput, error)
	SendMessageBatch(context.Context, *sqs.SendMessageBatchInput, ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessage(context.Context, *sqs.DeleteMessageInput, ...func(*sqs.Options)) (*sqs.DeleteMessageOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	ChangeMessageVisibility(context.Context, *sqs.ChangeMessageVisibilityInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityOutput, error)
	ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
}

type queues interface {
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
	SetQueueAttributes(context.Context, *sqs.SetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.SetQueueAttributesOutput, error)
	CreateQueue(context.Context, *sqs.CreateQueueInput, ...func(*sqs.Options)) (*sqs.CreateQueueOutput, error)
	DeleteQueue(context.Context, *sqs.DeleteQueueInput, ...func(*sqs.Options)) (*sqs.DeleteQueueOutput, error)
}

var (
	_ api = (*sqs.Client)(nil)
	_ api = (*fakesqs.SQS)(nil)
)

// side is one of the two services and its queues and receipt handles.
type side struct {
	api

	urls    map[string]*string
	handles map[string]*string // by body, of the last delivery
	old     map[string]*string // of the delivery before
}

// pair sends the same requests to ElasticMQ and to the fake and compares their answers.
type pair struct {
	*testing.T
	local, fake *side
	prefix      string
}

func newPair(t *testing.T) *pair {
	t.Helper()
	e := awslocal.Start(t)
	newSide := func(a api) *side {
		return &side{a, map[string]*string{}, map[string]*string{}, map[string]*string{}}
	}
	return &pair{
		T: t, prefix: e.Prefix(t) + "-",
		local: newSide(sqs.NewFromConfig(e.Config(t))), fake: newSide(fakesqs.New(fakesqs.Config{MessageBytesMax: 1 << 20})),
	}
}

// same makes one call on both.
func (p *pair) same(name string, call func(*side) (string, error)) {
	p.Helper()
	local, localErr := call(p.local)
	fake, fakeErr := call(p.fake)
	if !alike(code(localErr), code(fakeErr)) {
		p.Errorf("%s:\nlocal fails with %v\nfake fails with  %v", name, localErr, fakeErr)
	} else if local != fake {
		p.Errorf("%s:\nlocal %s\nfake  %s", name, local, fake)
	}
}

func code(err error) string {
	if err == nil {
		return ""
	}
	apiErr := smithy.APIError(nil)
	if errors.As(err, &apiErr) {
		return strings.TrimPrefix(apiErr.ErrorCode(), "com.amazonaws.sqs#")
	}
	return strings.Split(err.Error(), ", message ")[0] // whose id differs
}

// alike compares codes. ElasticMQ has a few of its own.
func alike(local, fake string) bool {
	switch fake {
	case "InvalidMessageContents", "BatchRequestTooLong", "InvalidParameterValue":
		return local == fake || local == "InvalidAttributeValue" || local == "InvalidAttributeName"
	}
	return local == fake
}

func (p *pair) create(name string, settings map[string]string) {
	p.Helper()
	p.same("create "+name, func(s *side) (string, error) {
		out, err := s.CreateQueue(p.Context(), &sqs.CreateQueueInput{QueueName: aws.String(p.prefix + name), Attributes: settings})
		if err == nil {
			s.urls[name] = out.QueueUrl
		}
		return "", err
	})
}

func (p *pair) send(in sqs.SendMessageInput) {
	p.Helper()
	p.same("send "+fmt.Sprintf("%.30s", aws.ToString(in.MessageBody)), func(s *side) (string, error) {
		in.QueueUrl = s.urls["q"]
		out, err := s.SendMessage(p.Context(), &in)
		if err != nil {
			return "", err
		}
		return *out.MD5OfMessageBody, nil
	})
}

func (p *pair) receive(queue string) {
	p.Helper()
	p.same("receive", func(s *side) (string, error) {
		out, err := s.ReceiveMessage(p.Context(), &sqs.ReceiveMessageInput{
			QueueUrl: s.urls[queue], MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"},
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameApproximateReceiveCount},
		})
		if err != nil {
			return "", err
		}
		var all []string
		for _, m := range out.Messages {
			s.old[*m.Body], s.handles[*m.Body] = s.handles[*m.Body], m.ReceiptHandle
			shown := fmt.Sprint(*m.Body, " ", *m.MD5OfBody, " ", m.Attributes)
			for name, v := range m.MessageAttributes {
				shown += fmt.Sprintf(" %s=%s %q %x", name, *v.DataType, aws.ToString(v.StringValue), v.BinaryValue)
			}
			all = append(all, shown)
		}
		sort.Strings(all)
		return strings.Join(all, "\n"), nil
	})
}

func (p *pair) counts(queue string) {
	p.Helper()
	p.same("counts of "+queue, func(s *side) (string, error) {
		out, err := s.GetQueueAttributes(p.Context(), &sqs.GetQueueAttributesInput{QueueUrl: s.urls[queue], AttributeNames: []types.QueueAttributeName{
			"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed", "VisibilityTimeout", "RedrivePolicy",
		}})
		if err != nil {
			return "", err
		}
		return strings.ReplaceAll(fmt.Sprint(out.Attributes), " ", ""), nil
	})
}

func text(s string) types.MessageAttributeValue {
	return types.MessageAttributeValue{DataType: aws.String("String"), StringValue: &s}
}

func TestMessagesAsLocal(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.create("q", map[string]string{"VisibilityTimeout": "60"})
	p.create("q", map[string]string{"VisibilityTimeout": "60"})
	p.counts("q")
	p.send(sqs.SendMessageInput{MessageBody: aws.String("plain")})
	p.send(sqs.SendMessageInput{
		MessageBody: aws.String("with attributes ü"), MessageAttributes: map[string]types.MessageAttributeValue{"id": text("x-1")},
	})
	p.send(sqs.SendMessageInput{MessageBody: aws.String("not UTF-8: \xff")})
	p.send(sqs.SendMessageInput{MessageBody: aws.String("delayed"), DelaySeconds: 900})
	p.counts("q")
	p.send(sqs.SendMessageInput{MessageBody: aws.String("control \x01")})
	p.send(sqs.SendMessageInput{MessageBody: aws.String("late"), DelaySeconds: 901})
	p.send(sqs.SendMessageInput{MessageBody: aws.String(strings.Repeat("x", 1<<20+1))})
	p.receive("q")
	p.receive("q")
	p.counts("q")
	change := func(body string, old bool, seconds int32) {
		t.Helper()
		p.same("change visibility of "+body, func(s *side) (string, error) {
			handle := s.handles[body]
			if old {
				handle = s.old[body]
			}
			_, err := s.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: s.urls["q"], ReceiptHandle: handle, VisibilityTimeout: seconds})
			return "", err
		})
	}
	remove := func(body string, old bool) {
		t.Helper()
		p.same("delete "+body, func(s *side) (string, error) {
			handle := s.handles[body]
			if old {
				handle = s.old[body]
			}
			_, err := s.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: s.urls["q"], ReceiptHandle: handle})
			return "", err
		})
	}
	change("plain", false, 0)
	p.counts("q")
	p.receive("q")
	change("plain", false, 100)
	p.receive("q")
	remove("plain", false)
	p.counts("q")
	change("with attributes ü", false, 0)
	remove("with attributes ü", false) // visible again, not yet received
	p.receive("q")
	p.counts("q")
}

func TestBatchesAsLocal(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.create("q", nil)
	p.create("other", map[string]string{"VisibilityTimeout": "7"})
	entry := func(id, body string) types.SendMessageBatchRequestEntry {
		return types.SendMessageBatchRequestEntry{Id: aws.String(id), MessageBody: aws.String(body)}
	}
	batch := func(queue string, entries ...types.SendMessageBatchRequestEntry) {
		t.Helper()
		p.same("batch", func(s *side) (string, error) {
			out, err := s.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: s.urls[queue], Entries: entries})
			if err != nil {
				return "", err
			}
			var all []string
			for _, e := range out.Successful {
				all = append(all, *e.Id+*e.MD5OfMessageBody)
			}
			for _, e := range out.Failed {
				all = append(all, fmt.Sprint(*e.Id, alike(*e.Code, "InvalidMessageContents"), e.SenderFault))
			}
			sort.Strings(all)
			return strings.Join(all, "\n"), nil
		})
	}
	batch("q", entry("a", "one"), entry("b", "two"))
	batch("q", entry("a", "three"), entry("b", "bad \x02"))
	batch("q", slices.Repeat([]types.SendMessageBatchRequestEntry{entry("a", "x")}, 2)...)
	var many []types.SendMessageBatchRequestEntry
	for i := range 11 {
		many = append(many, entry(fmt.Sprint("e", i), "x"))
	}
	batch("q", many...)
	batch("q", entry("a", strings.Repeat("x", 600<<10)), entry("b", strings.Repeat("x", 600<<10)))
	p.receive("q")
	p.same("delete batch", func(s *side) (string, error) {
		out, err := s.DeleteMessageBatch(t.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: s.urls["q"], Entries: []types.DeleteMessageBatchRequestEntry{
			{Id: aws.String("a"), ReceiptHandle: s.handles["one"]}, {Id: aws.String("b"), ReceiptHandle: s.handles["two"]},
		}})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(len(out.Successful), len(out.Failed)), nil
	})
	p.same("change batch", func(s *side) (string, error) {
		out, err := s.ChangeMessageVisibilityBatch(t.Context(), &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: s.urls["q"], Entries: []types.ChangeMessageVisibilityBatchRequestEntry{
			{Id: aws.String("a"), ReceiptHandle: s.handles["three"]},
		}})
		if err != nil {
			return "", err
		}
		return fmt.Sprint(len(out.Successful), len(out.Failed)), nil
	})
	p.receive("q")
}

func TestQueuesAsLocal(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	p.create("q", map[string]string{"VisibilityTimeout": "60"})
	p.create("q", map[string]string{"VisibilityTimeout": "61"})
	p.create("bad.name", nil)
	p.create(strings.Repeat("x", 81-len(p.prefix)), nil)
	p.create(strings.Repeat("x", 80-len(p.prefix)), nil)
	p.create("dead", nil)
	p.same("url of none", func(s *side) (string, error) {
		_, err := s.GetQueueUrl(t.Context(), &sqs.GetQueueUrlInput{QueueName: aws.String(p.prefix + "none")})
		return "", err
	})
	set := func(settings map[string]string) {
		t.Helper()
		p.same(fmt.Sprint("set ", settings), func(s *side) (string, error) {
			_, err := s.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: s.urls["q"], Attributes: settings})
			return "", err
		})
	}
	set(map[string]string{"VisibilityTimeout": "1"})
	p.same("redrive", func(s *side) (string, error) {
		out, err := s.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: s.urls["dead"], AttributeNames: []types.QueueAttributeName{"QueueArn"}})
		if err != nil {
			return "", err
		}
		_, err = s.SetQueueAttributes(t.Context(), &sqs.SetQueueAttributesInput{QueueUrl: s.urls["q"], Attributes: map[string]string{
			"RedrivePolicy": fmt.Sprintf(`{"deadLetterTargetArn":%q,"maxReceiveCount":"2"}`, out.Attributes["QueueArn"]),
		}})
		return "", err
	})
	p.send(sqs.SendMessageInput{MessageBody: aws.String("poison")})
	for range 3 {
		p.receive("q")
		p.same("give back", func(s *side) (string, error) {
			_, _ = s.ChangeMessageVisibility(t.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: s.urls["q"], ReceiptHandle: s.handles["poison"]})
			return "", nil
		})
	}
	p.counts("dead")
	p.receive("dead")
	p.same("delete", func(s *side) (string, error) {
		_, err := s.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: s.urls["q"]})
		return "", err
	})
	p.receive("q")
}

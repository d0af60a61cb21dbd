package sqs_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/task"
)

// deleting is a service whose queues can be deleted.
type deleting interface {
	sqs.API
	DeleteQueue(ctx context.Context, in *awssqs.DeleteQueueInput, options ...func(*awssqs.Options)) (*awssqs.DeleteQueueOutput, error)
}

// turning has the queues of a lambda that is deleted and created again.
type turning struct {
	*testing.T

	api     deleting
	prefix  string
	lambdas lambdas
	driver  *sqs.Driver
}

func newTurning(t *testing.T, api deleting, prefix string) *turning {
	t.Helper()
	s := &turning{T: t, api: api, prefix: prefix}
	config := sqs.Config{
		Prefix: prefix, Codec: sqs.StoreCodec, Lambda: s.lambdas.get, Lambdas: s.lambdas.list, Clock: clock.Real(), Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	atOnce(&config)
	s.driver = sqs.New(api, config)
	t.Cleanup(func() { _ = s.driver.Close() })
	return s
}

func (s *turning) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// comes provisions a lambda and adds it to the catalog.
func (s *turning) comes(l task.Lambda) {
	s.Helper()
	s.must(s.driver.Provision(s.Context(), l))
	if left, err := sqsclient.Check(s.Context(), s.api, sqs.Queues(s.prefix, l)); err != nil || len(left) > 0 {
		s.Errorf("queues of mode %s: %v, %v", l.Mode, left, err)
	}
	s.lambdas.add(l)
}

// wantRefusal provisions a lambda whose queue is not empty, and checks that nothing changes.
func (s *turning) wantRefusal(l task.Lambda, texts ...string) {
	s.Helper()
	specs := sqs.Queues(s.prefix, l)
	before, err := sqsclient.Check(s.Context(), s.api, specs)
	s.must(err)
	err = s.driver.Provision(s.Context(), l)
	for _, text := range texts {
		if !errors.Is(err, queue.ErrOtherMode) || !strings.Contains(err.Error(), text) {
			s.Errorf("mode %s: %v, want %q", l.Mode, err, text)
		}
	}
	after, err := sqsclient.Check(s.Context(), s.api, specs)
	s.must(err)
	if !slices.Equal(before, after) {
		s.Errorf("was %v, is %v", before, after)
	}
	if missing, err := s.driver.Missing(s.Context(), l); !errors.Is(err, queue.ErrOtherMode) {
		s.Errorf("missing: %q, %v", missing, err)
	}
}

// drain empties a queue.
func (s *turning) drain(name string) {
	s.Helper()
	at, err := s.api.GetQueueUrl(s.Context(), &awssqs.GetQueueUrlInput{QueueName: &name})
	s.must(err)
	got, err := s.api.ReceiveMessage(s.Context(), &awssqs.ReceiveMessageInput{QueueUrl: at.QueueUrl, MaxNumberOfMessages: 10, WaitTimeSeconds: 1})
	s.must(err)
	for _, m := range got.Messages {
		_, err := s.api.DeleteMessageBatch(s.Context(), &awssqs.DeleteMessageBatchInput{
			QueueUrl: at.QueueUrl, Entries: []types.DeleteMessageBatchRequestEntry{{Id: aws.String("0"), ReceiptHandle: m.ReceiptHandle}},
		})
		s.must(err)
	}
}

// remove deletes a queue: ElasticMQ cannot remove its redrive policy.
func (s *turning) remove(name string) {
	s.Helper()
	at, err := s.api.GetQueueUrl(s.Context(), &awssqs.GetQueueUrlInput{QueueName: &name})
	s.must(err)
	_, err = s.api.DeleteQueue(s.Context(), &awssqs.DeleteQueueInput{QueueUrl: at.QueueUrl})
	s.must(err)
}

// A lambda that is deleted and created in the other mode gets the queues of the first one, with messages
// that are not for its readers.
func TestALambdaThatComesBackInTheOtherMode(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) *turning{
		"fake": func(t *testing.T) *turning { t.Helper(); return newTurning(t, fakesqs.New(fakesqs.Config{}), "kin") },
		"ElasticMQ": func(t *testing.T) *turning {
			t.Helper()
			l := onElasticMQ(t)
			return newTurning(t, l.api, l.prefix)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			deliver := deliverLambda("sw", 1)
			managed := task.Lambda{Name: "sw", Ref: 2, Priorities: deliver.Priorities}.WithDefaults()
			s.comes(deliver)
			s.must(s.driver.Deliver(t.Context(), deliveryOf(deliver, 1, []byte("an invoice")))[0])
			s.lambdas.remove(deliver.Ref)
			s.wantRefusal(managed, s.prefix+"-sw-high has a redrive policy (to "+s.prefix+"-sw-high-dlq after 10 receives)", "messages for its consumer (about 1): let that read them", "purge the queue")
			s.drain(s.prefix + "-sw-high")
			if name == "ElasticMQ" {
				s.wantRefusal(managed, "cannot be changed", "or delete the queue")
				s.remove(s.prefix + "-sw-high")
				s.remove(s.prefix + "-sw-low")
			}
			s.comes(managed)

			s.must(s.driver.Send(t.Context(), []queue.Message{taskOf(managed.Ref, 1, clock.Real().Now())})[0])
			s.lambdas.remove(managed.Ref)
			s.wantRefusal(deliver, s.prefix+"-sw-high has no redrive policy", "messages of Kinesin's own, for a lambda that is gone (about 1): purge", "purge the queue")
			s.drain(s.prefix + "-sw-high")
			s.comes(deliver)
		})
	}
}

func TestALambdaThatComesBackInTheSameMode(t *testing.T) {
	t.Parallel()
	s := newTurning(t, fakesqs.New(fakesqs.Config{}), "kin")
	l := deliverLambda("sw", 1)
	s.comes(l)
	changeRedrive(t, s.api, "kin-sw-high") // which is the operator's choice
	s.must(s.driver.Deliver(t.Context(), deliveryOf(l, 1, []byte("an invoice")))[0])
	s.must(s.driver.Provision(t.Context(), l)) // there already
	s.lambdas.remove(l.Ref)
	l.Ref = 2
	s.must(s.driver.Provision(t.Context(), l))
	if left, err := sqsclient.Check(t.Context(), s.api, sqs.Queues("kin", l)); err != nil || len(left) != 1 {
		t.Errorf("left of what an operator changed: %v, %v", left, err)
	}
}

// The queues of an existing lambda are its own, whatever an operator changed about them.
func TestQueuesOfALambdaThatIsThereStay(t *testing.T) {
	t.Parallel()
	s := newTurning(t, fakesqs.New(fakesqs.Config{}), "kin")
	deliver := deliverLambda("sw", 1)
	managed := task.Lambda{Name: "sw", Ref: 2, Priorities: deliver.Priorities}.WithDefaults()
	s.comes(deliver)
	s.must(s.driver.Provision(t.Context(), managed)) // which the catalog refuses
	if left, err := sqsclient.Check(t.Context(), s.api, sqs.Queues("kin", deliver)); err != nil || len(left) > 0 {
		t.Errorf("queues of the lambda that is there: %v, %v", left, err)
	}
	if names, err := s.driver.Missing(t.Context(), managed); err != nil || len(names) > 0 {
		t.Errorf("missing: %q, %v", names, err)
	}
}

func TestQueuesOfTheOtherModeThatMayNotBeChanged(t *testing.T) {
	t.Parallel()
	service := fakesqs.New(fakesqs.Config{})
	s := newTurning(t, service, "kin")
	l := deliverLambda("sw", 1)
	s.comes(l)
	s.lambdas.remove(l.Ref)
	service.Faults.Odds("SetQueueAttributes", awsfake.Denied, 1)
	err := s.driver.Provision(t.Context(), task.Lambda{Name: "sw", Ref: 2, Priorities: l.Priorities}.WithDefaults())
	if !errors.Is(err, queue.ErrOtherMode) || !strings.Contains(err.Error(), "allow it (sqs:SetQueueAttributes)") || !strings.Contains(err.Error(), "kin-sw-high") {
		t.Errorf("%v", err)
	}
}

// A redrive policy of the operator's own is left alone.
func TestCheckLeavesARedriveOfTheOperatorsOwn(t *testing.T) {
	t.Parallel()
	service := fakesqs.New(fakesqs.Config{})
	job := sqs.Queues("kin", task.Lambda{Name: "job", Priorities: []string{"one"}}.WithDefaults())
	if _, err := sqsclient.Create(t.Context(), service, slices.Concat(sqs.Queues("kin", deliverLambda("other", 1))[:1], job)); err != nil {
		t.Fatal(err)
	}
	at, err := service.GetQueueUrl(t.Context(), &awssqs.GetQueueUrlInput{QueueName: aws.String("kin-job-one")})
	if err != nil {
		t.Fatal(err)
	}
	policy := `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:kin-other-high-dlq","maxReceiveCount":5}`
	_, err = service.SetQueueAttributes(t.Context(), &awssqs.SetQueueAttributesInput{QueueUrl: at.QueueUrl, Attributes: map[string]string{"RedrivePolicy": policy}})
	if err != nil {
		t.Fatal(err)
	}
	if found, err := sqsclient.Check(t.Context(), service, job); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

// New queues get a policy, unless that is turned off; a server that may not set it makes the queue all the
// same.
func TestNewQueuesGetAPolicy(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(s *turning, service *fakesqs.SQS)
		want   bool
	}{
		"as it is":   {func(*turning, *fakesqs.SQS) {}, true},
		"turned off": {func(s *turning, _ *fakesqs.SQS) { s.driver.NoPolicies = true }, false},
		"not allowed": {func(_ *turning, service *fakesqs.SQS) {
			service.Faults.Odds("SetQueueAttributes", awsfake.Denied, 1)
		}, false},
	} {
		service := fakesqs.New(fakesqs.Config{})
		s := newTurning(t, service, "kin")
		c.change(s, service)
		l := deliverLambda("mail", 1)
		s.comes(l)
		for _, spec := range sqs.Queues("kin", l) {
			have, err := sqsclient.Describe(t.Context(), service, spec.Name)
			if policy := have[string(types.QueueAttributeNamePolicy)]; err != nil || strings.Contains(policy, "OnlyThisAccount") != c.want || (policy != "") != c.want {
				t.Errorf("%s: %s has the policy %q; %v", name, spec.Name, policy, err)
			}
		}
	}
}

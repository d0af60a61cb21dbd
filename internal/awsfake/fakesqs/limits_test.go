package fakesqs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Rules of SQS that no emulator keeps.

// service is the fake in virtual time, in a synctest bubble, with one queue.
type service struct {
	*testing.T
	*fakesqs.SQS

	v   *clock.Virtual
	url *string
}

func inBubble(t *testing.T, cfg fakesqs.Config, settings map[string]string, test func(*service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		v := clock.NewVirtual(task.FromMillis(1_800_000_000_000), 1)
		v.Settle(synctest.Wait)
		cfg.Clock = v.Process(0)
		s := &service{T: t, SQS: fakesqs.New(cfg), v: v}
		out, err := s.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("q"), Attributes: settings})
		if err != nil {
			t.Fatal(err)
		}
		s.url = out.QueueUrl
		test(s)
	})
}

func (s *service) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *service) send(bodies ...string) {
	s.Helper()
	for _, body := range bodies {
		_, err := s.SendMessage(s.Context(), &sqs.SendMessageInput{QueueUrl: s.url, MessageBody: &body})
		s.must(err)
	}
}

// receive takes what is there.
func (s *service) receive() []types.Message {
	s.Helper()
	out, err := s.ReceiveMessage(s.Context(), &sqs.ReceiveMessageInput{QueueUrl: s.url, MaxNumberOfMessages: 10})
	s.must(err)
	return out.Messages
}

func (s *service) want(bodies ...string) []types.Message {
	s.Helper()
	got := s.receive()
	if len(got) != len(bodies) {
		s.Fatalf("received %d messages, want %v", len(got), bodies)
	}
	for i := range got {
		if *got[i].Body != bodies[i] {
			s.Fatalf("message %d is %s, want %s", i, *got[i].Body, bodies[i])
		}
	}
	return got
}

func (s *service) remove(m types.Message) error {
	_, err := s.DeleteMessage(s.Context(), &sqs.DeleteMessageInput{QueueUrl: s.url, ReceiptHandle: m.ReceiptHandle})
	return err
}

func (s *service) hide(m types.Message, seconds int32) error {
	_, err := s.ChangeMessageVisibility(s.Context(), &sqs.ChangeMessageVisibilityInput{QueueUrl: s.url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: seconds})
	return err
}

// poll starts a long poll.
func (s *service) poll(ctx context.Context) <-chan string {
	done := make(chan string, 1)
	go func() {
		out, err := s.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: s.url, MaxNumberOfMessages: 10, WaitTimeSeconds: 20})
		text := fmt.Sprint(err)
		if err == nil {
			text = ""
			for _, m := range out.Messages {
				text += *m.Body
			}
		}
		done <- text
	}()
	synctest.Wait()
	return done
}

func isDone(done <-chan string) bool {
	synctest.Wait()
	return len(done) > 0
}

func TestLongPoll(t *testing.T) {
	t.Parallel()
	inBubble(t, fakesqs.Config{}, nil, func(s *service) {
		poll := s.poll(s.Context())
		s.v.Advance(20*time.Second - time.Millisecond)
		if isDone(poll) {
			s.Fatal("over before its time")
		}
		s.v.Advance(time.Millisecond)
		if !isDone(poll) || <-poll != "" {
			s.Fatal("not over with nothing after 20 s")
		}
		poll = s.poll(s.Context())
		s.send("a")
		if !isDone(poll) || <-poll != "a" {
			s.Fatal("not woken by a message")
		}
		poll = s.poll(s.Context())
		s.v.Advance(15 * time.Second)
		_, err := s.SendMessage(s.Context(), &sqs.SendMessageInput{QueueUrl: s.url, MessageBody: aws.String("b"), DelaySeconds: 2})
		s.must(err)
		s.v.Advance(2*time.Second - time.Microsecond)
		if isDone(poll) {
			s.Fatal("a delayed message came early")
		}
		s.v.Advance(time.Microsecond)
		if !isDone(poll) || <-poll != "b" {
			s.Fatal("not woken by a delayed message")
		}
	})
}

func TestVisibilityAndHandles(t *testing.T) {
	t.Parallel()
	inBubble(t, fakesqs.Config{}, map[string]string{"VisibilityTimeout": "10"}, func(s *service) {
		s.send("a")
		first := s.want("a")[0]
		s.v.Advance(10*time.Second - time.Microsecond)
		s.want()
		s.v.Advance(time.Microsecond)
		second := s.want("a")[0]
		s.must(s.remove(first)) // succeeds, and does nothing
		if err := s.hide(first, 0); err == nil {
			s.Error("the handle of an earlier delivery hides the message")
		}
		s.must(s.hide(second, 43_200))
		s.v.Advance(time.Second)
		if err := s.hide(second, 43_200); err == nil {
			s.Error("hidden for more than 12 hours together")
		}
		s.must(s.hide(second, 0))
		var inFlight *types.MessageNotInflight
		if err := s.hide(second, 5); !errors.As(err, &inFlight) {
			s.Errorf("hide a message that is visible: %v", err)
		}
		s.must(s.remove(second)) // it has not been received again
		s.want()
	})
}

func TestSilenceWhenTooManyAreInFlight(t *testing.T) {
	t.Parallel()
	inBubble(t, fakesqs.Config{InFlightMax: 5}, map[string]string{"VisibilityTimeout": "60"}, func(s *service) {
		s.send("a", "b", "c", "d", "e", "f", "g")
		got := s.want("a", "b", "c", "d", "e")
		_, err := s.ReceiveMessage(s.Context(), &sqs.ReceiveMessageInput{QueueUrl: s.url})
		if _, isOver := errors.AsType[*types.OverLimit](err); !isOver {
			s.Errorf("short poll: %v, want OverLimit", err)
		}
		poll := s.poll(s.Context())
		s.v.Advance(20 * time.Second)
		if !isDone(poll) || <-poll != "" {
			s.Error("a long poll is not silent")
		}
		s.must(s.remove(got[0]))
		s.want("f")
	})
}

func TestWhatIsTooOldIsForgotten(t *testing.T) {
	t.Parallel()
	inBubble(t, fakesqs.Config{}, map[string]string{"MessageRetentionPeriod": "60"}, func(s *service) {
		s.send("a")
		s.v.Advance(30 * time.Second)
		s.send("b")
		s.v.Advance(31 * time.Second)
		s.want("b")
	})
}

func TestFaultsOfDelivery(t *testing.T) {
	t.Parallel()
	inBubble(t, fakesqs.Config{}, nil, func(s *service) {
		s.send("twice")
		s.Faults.Next("ReceiveMessage", fakesqs.Twice, 1)
		s.want("twice")
		again := s.want("twice")[0]
		s.Faults.Next("DeleteMessage", fakesqs.Undead, 1)
		s.must(s.remove(again))
		s.must(s.remove(s.want("twice")[0]))
		s.want()

		s.send("lost")
		s.Faults.Next("ReceiveMessage", awsfake.LostAnswer, 1)
		if _, err := s.ReceiveMessage(s.Context(), &sqs.ReceiveMessageInput{QueueUrl: s.url}); err == nil {
			s.Error("no error for a lost answer")
		}
		s.want()
		s.v.Advance(30 * time.Second)
		s.must(s.remove(s.want("lost")[0]))

		s.send("taken by nobody")
		s.Faults.Next("ReceiveMessage", fakesqs.Sampled, 1)
		s.want()
		s.must(s.remove(s.want("taken by nobody")[0]))

		ctx, cancel := context.WithCancel(s.Context())
		s.Faults.Next("ReceiveMessage", fakesqs.Abandoned, 1)
		poll := s.poll(ctx)
		cancel()
		if !isDone(poll) || !strings.Contains(<-poll, "canceled") {
			s.Error("an abandoned poll is not over")
		}
		s.send("taken by a ghost")
		s.want()
		s.v.Advance(30 * time.Second)
		s.want("taken by a ghost")
	})
}

func TestReordering(t *testing.T) {
	t.Parallel()
	inBubble(t, fakesqs.Config{Seed: 3}, nil, func(s *service) {
		for n := range 50 {
			s.send(fmt.Sprintf("%02d", n))
		}
		s.Faults.Odds("ReceiveMessage", fakesqs.Reordered, 1)
		var got []string
		for range 5 {
			for _, m := range s.receive() {
				got = append(got, *m.Body)
			}
		}
		seen := map[string]bool{}
		inOrder := 0
		for i, body := range got {
			seen[body] = true
			if body == fmt.Sprintf("%02d", i) {
				inOrder++
			}
		}
		if len(seen) != 50 || inOrder > 20 {
			s.Errorf("%d of 50 messages, %d at their place: %v", len(seen), inOrder, got)
		}
	})
}

func TestPartialBatches(t *testing.T) {
	t.Parallel()
	inBubble(t, fakesqs.Config{}, nil, func(s *service) {
		s.Faults.Next("SendMessageBatch", awsfake.Partial, 1)
		out, err := s.SendMessageBatch(s.Context(), &sqs.SendMessageBatchInput{QueueUrl: s.url, Entries: []types.SendMessageBatchRequestEntry{
			{Id: aws.String("0"), MessageBody: aws.String("a")}, {Id: aws.String("1"), MessageBody: aws.String("b")},
		}})
		s.must(err)
		if len(out.Failed) != 1 || *out.Failed[0].Id != "0" || out.Failed[0].SenderFault || len(out.Successful) != 1 {
			s.Errorf("failed %+v", out.Failed)
		}
		got := s.want("b")
		s.Faults.Next("DeleteMessageBatch", awsfake.PartialDone, 1)
		deleted, err := s.DeleteMessageBatch(s.Context(), &sqs.DeleteMessageBatchInput{QueueUrl: s.url, Entries: []types.DeleteMessageBatchRequestEntry{
			{Id: aws.String("0"), ReceiptHandle: got[0].ReceiptHandle},
		}})
		s.must(err)
		if len(deleted.Failed) != 1 {
			s.Errorf("failed %+v", deleted.Failed)
		}
		s.v.Advance(time.Minute)
		s.want()
	})
}

func TestCountsLag(t *testing.T) {
	t.Parallel()
	inBubble(t, fakesqs.Config{CountLag: time.Minute}, nil, func(s *service) {
		count := func() string {
			out, err := s.GetQueueAttributes(s.Context(), &sqs.GetQueueAttributesInput{QueueUrl: s.url, AttributeNames: []types.QueueAttributeName{"All"}})
			s.must(err)
			return out.Attributes["ApproximateNumberOfMessages"]
		}
		if n := count(); n != "0" {
			s.Errorf("%s messages in a new queue", n)
		}
		s.send("a")
		if n := count(); n != "0" {
			s.Errorf("%s messages, at once", n)
		}
		s.v.Advance(time.Minute)
		if n := count(); n != "1" {
			s.Errorf("%s messages after a minute", n)
		}
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	inBubble(t, fakesqs.Config{}, nil, func(s *service) {
		send := func(in sqs.SendMessageInput) error {
			in.QueueUrl = s.url
			_, err := s.SendMessage(s.Context(), &in)
			return err
		}
		s.must(send(sqs.SendMessageInput{MessageBody: aws.String(strings.Repeat("x", 256<<10))}))
		many := map[string]types.MessageAttributeValue{}
		for n := range 11 {
			many[fmt.Sprint("a", n)] = text("x")
		}
		for name, in := range map[string]sqs.SendMessageInput{
			"too long":                   {MessageBody: aws.String(strings.Repeat("x", 256<<10+1))},
			"too long with attributes":   {MessageBody: aws.String(strings.Repeat("x", 256<<10-5)), MessageAttributes: map[string]types.MessageAttributeValue{"a": text("b")}},
			"empty":                      {MessageBody: aws.String("")},
			"11 attributes":              {MessageBody: aws.String("x"), MessageAttributes: many},
			"attribute of a bad name":    {MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{"aws.x": text("b")}},
			"attribute without a value":  {MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{"a": text("")}},
			"attribute of a bad value":   {MessageBody: aws.String("x"), MessageAttributes: map[string]types.MessageAttributeValue{"a": text("\x00")}},
			"delayed by more than 900 s": {MessageBody: aws.String("x"), DelaySeconds: 901},
			"U+FFFE":                     {MessageBody: aws.String("\ufffe")},
		} {
			if err := send(in); err == nil {
				s.Errorf("%s: was sent", name)
			}
		}
		if err := send(sqs.SendMessageInput{MessageBody: aws.String("x"), MessageGroupId: aws.String("g")}); !errors.Is(err, awsfake.ErrNotModelled) {
			s.Errorf("FIFO: %v", err)
		}
		_, err := s.CreateQueue(s.Context(), &sqs.CreateQueueInput{QueueName: aws.String(strings.Repeat("x", 81))})
		if err == nil {
			s.Error("a name of 81 characters was taken")
		}
		_, err = s.DeleteQueue(s.Context(), &sqs.DeleteQueueInput{QueueUrl: s.url})
		s.must(err)
		_, err = s.CreateQueue(s.Context(), &sqs.CreateQueueInput{QueueName: aws.String("q")})
		if _, isRecent := errors.AsType[*types.QueueDeletedRecently](err); !isRecent {
			s.Errorf("made again at once: %v", err)
		}
	})
}

package sqs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/task"
)

const (
	outURL  = "https://sqs.us-east-1.amazonaws.com/000000000000/test-out-high"
	deadURL = outURL + "-dlq"
)

// within runs f while time passes.
func within[R any](b *bubble, f func(ctx context.Context) R) (r R) {
	b.Helper()
	result := make(chan R, 1)
	go func() { result <- f(b.Context()) }()
	for range 120 {
		b.advance(time.Second)
		select {
		case r = <-result:
			return r
		default:
		}
	}
	b.Fatal("it does not come back")
	return r
}

// deadLetters finds the dead-letter queue of the bubble's deliver lambda.
func (b *bubble) deadLetters() *queue.DeadLetterQueue {
	b.Helper()
	l, _ := b.lambdas.get(out.Lambda)
	var err error
	q := within(b, func(ctx context.Context) (q queue.DeadLetterQueue) {
		q, err = b.driver.FindDeadLetters(ctx, l, "high")
		return q
	})
	if err != nil {
		b.Fatal(err)
	}
	return &q
}

// bury puts n messages on the dead-letter queue, with attributes of several types.
func (b *bubble) bury(n int) {
	b.Helper()
	for i := range n {
		_, err := b.service.SendMessage(b.Context(), &awssqs.SendMessageInput{
			QueueUrl: aws.String(deadURL), MessageBody: aws.String(fmt.Sprint("payload ", i)), MessageAttributes: map[string]types.MessageAttributeValue{
				sqs.AttributeTaskID: {DataType: aws.String("String"), StringValue: aws.String(fmt.Sprint("k", i))},
				"size":              {DataType: aws.String("Number"), StringValue: aws.String("7")},
				"raw":               {DataType: aws.String("Binary"), BinaryValue: []byte{0, 1}},
			},
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// countOf returns how many messages of a queue can be received, and how many are received.
func (b *bubble) countOf(url string) (visible, hidden string) {
	b.Helper()
	have, err := b.service.GetQueueAttributes(b.Context(), &awssqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
	if err != nil {
		b.Fatal(err)
	}
	return have.Attributes["ApproximateNumberOfMessages"], have.Attributes["ApproximateNumberOfMessagesNotVisible"]
}

func TestDeadLettersAreOnlyLookedAt(t *testing.T) {
	inBubble(t, func(b *bubble) {
		q := b.deadLetters()
		if q.Name != "test-out-high-dlq" || q.Source != "test-out-high" || q.ReceivesMax != sqs.DeliverReceivesMax {
			b.Errorf("found %+v", q)
		}
		b.bury(25)
		for _, c := range []struct{ limit, bytesMax, want, bytes int }{{100, 1 << 20, 25, 9}, {12, 0, 12, 0}, {100, 30, 10, 9}} {
			var err error
			got := within(b, func(ctx context.Context) (all []queue.DeadLetter) {
				all, err = b.driver.PeekDeadLetters(ctx, q, c.limit, c.bytesMax)
				return all
			})
			if err != nil || len(got) != c.want {
				b.Errorf("limit %d: %d messages, %v; want %d", c.limit, len(got), err, c.want)
			} else if l := got[0]; l.TaskID != "k0" || l.PayloadBytes != 9 || len(l.Payload) != c.bytes || l.Sent == 0 {
				b.Errorf("limit %d: %+v", c.limit, l)
			}
			if visible, hidden := b.countOf(deadURL); visible != "25" || hidden != "0" {
				b.Errorf("limit %d: %s messages are there and %s hidden, want 25 and 0", c.limit, visible, hidden)
			}
		}
		n := within(b, func(ctx context.Context) int {
			n, latest, err := b.driver.CountDeadLetters(ctx, q)
			if err != nil || latest != nil {
				b.Errorf("count: %v, move %+v", err, latest)
			}
			return n
		})
		if n != 25 {
			b.Errorf("%d counted", n)
		}
	})
}

// step changes dead letters and returns how many.
func (b *bubble) step(q *queue.DeadLetterQueue, s queue.DeadLetterStep) (changed int, more bool, err error) {
	b.Helper()
	within(b, func(ctx context.Context) struct{} {
		changed, more, err = b.driver.ChangeDeadLetters(ctx, q, s)
		return struct{}{}
	})
	return changed, more, err
}

// TestRedriveByHand is for services without moves: each message comes back as it was, and what dies again
// meanwhile stays dead.
func TestRedriveByHand(t *testing.T) {
	inBubble(t, func(b *bubble) {
		q := b.deadLetters()
		err := within(b, func(ctx context.Context) error {
			_, err := b.driver.MoveDeadLetters(ctx, q, 0)
			return err
		})
		if !errors.Is(err, queue.ErrNoMoves) {
			b.Fatalf("a move of a service without moves: %v", err)
		}
		b.bury(23)
		before := b.clock.Now()
		b.advance(time.Second)
		b.bury(2)
		changed, more, err := b.step(q, queue.DeadLetterStep{Redrive: true, Before: before, For: time.Minute})
		if changed != 23 || more || err != nil {
			b.Errorf("%d redriven, more %v, %v; want 23", changed, more, err)
		}
		if visible, _ := b.countOf(outURL); visible != "23" {
			b.Errorf("%s messages are back, want 23", visible)
		}
		b.advance(queue.DeadLetterHiddenMax)
		if visible, _ := b.countOf(deadURL); visible != "2" {
			b.Errorf("%s messages are dead, want 2", visible)
		}
		got, err := b.service.ReceiveMessage(b.Context(), &awssqs.ReceiveMessageInput{QueueUrl: aws.String(outURL), MessageAttributeNames: []string{"All"}})
		if err != nil || len(got.Messages) != 1 {
			b.Fatalf("%+v, %v", got, err)
		}
		m := got.Messages[0]
		if *m.Body != "payload 0" || *m.MessageAttributes["size"].DataType != "Number" || !slices.Equal(m.MessageAttributes["raw"].BinaryValue, []byte{0, 1}) {
			b.Errorf("it came back as %q with %+v", *m.Body, m.MessageAttributes)
		}
	})
}

// TestRedriveLosesNothing: a message is deleted only when it is on the lambda's queue.
func TestRedriveLosesNothing(t *testing.T) {
	t.Parallel()
	for fault, want := range map[awsfake.Fault]int{awsfake.Partial: 10, awsfake.LostAnswer: 0, awsfake.Refused: 0} {
		t.Run(string(fault), func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				q := b.deadLetters()
				b.bury(10)
				b.service.Faults.Next("SendMessageBatch", fault, 1)
				changed, _, err := b.step(q, queue.DeadLetterStep{Redrive: true, Before: b.clock.Now(), For: time.Minute})
				if changed != want || (err == nil) != (want == 10) {
					b.Errorf("%d redriven, %v; want %d", changed, err, want)
				}
				b.advance(queue.DeadLetterHiddenMax)
				back, _ := b.countOf(outURL)
				dead, _ := b.countOf(deadURL)
				if back == "0" && dead != "10" || back != "0" && back != "10" {
					b.Errorf("%s are back and %s dead of 10", back, dead)
				}
			})
		})
	}
}

func TestDeleteDeadLetters(t *testing.T) {
	inBubble(t, func(b *bubble) {
		q := b.deadLetters()
		b.bury(40)
		began := b.clock.Now()
		changed, more, err := b.step(q, queue.DeadLetterStep{Before: began, Pace: 5, For: 3 * time.Second})
		if took := b.clock.Now().Sub(began); changed < 10 || changed > 5*int(took/time.Second) || !more || err != nil {
			b.Errorf("%d deleted in %v at 5 a second, more %v, %v", changed, took, more, err)
		}
		rest, more, err := b.step(q, queue.DeadLetterStep{Before: began, For: time.Minute})
		if changed+rest != 40 || more || err != nil {
			b.Errorf("%d and %d deleted, more %v, %v; want 40", changed, rest, more, err)
		}
		if visible, hidden := b.countOf(deadURL); visible != "0" || hidden != "0" {
			b.Errorf("%s and %s are left", visible, hidden)
		}
		purge := func(ctx context.Context) error { return b.driver.PurgeDeadLetters(ctx, q) }
		b.bury(3)
		if err := within(b, purge); err != nil {
			b.Error(err)
		}
		if visible, _ := b.countOf(deadURL); visible != "0" {
			b.Errorf("%s are left after a purge", visible)
		}
		if err := within(b, purge); !errors.Is(err, queue.ErrPurging) {
			b.Errorf("a second purge: %v", err)
		}
	})
}

func TestDeadLettersThatCannotBe(t *testing.T) {
	inBubble(t, func(b *bubble) {
		q := b.deadLetters()
		b.service.Faults.Next("ReceiveMessage", awsfake.Denied, 1)
		_, _, err := b.step(q, queue.DeadLetterStep{For: time.Minute})
		if !errors.Is(err, queue.ErrDenied) || !strings.Contains(err.Error(), "sqs:receivemessage") {
			b.Errorf("without the permission: %v", err)
		}
		l, _ := b.lambdas.get(out.Lambda)
		find := func(ctx context.Context) error {
			_, err := b.driver.FindDeadLetters(ctx, l, "high")
			return err
		}
		if _, err := b.service.SetQueueAttributes(b.Context(), &awssqs.SetQueueAttributesInput{QueueUrl: aws.String(outURL), Attributes: map[string]string{"RedrivePolicy": ""}}); err != nil {
			b.Fatal(err)
		}
		if err := within(b, find); !errors.Is(err, queue.ErrNoDeadLetters) || !strings.Contains(err.Error(), "kinesin aws setup") {
			b.Errorf("without a redrive policy: %v", err)
		}
		if _, err := b.service.DeleteQueue(b.Context(), &awssqs.DeleteQueueInput{QueueUrl: aws.String(outURL)}); err != nil {
			b.Fatal(err)
		}
		if err := within(b, find); !errors.Is(err, queue.ErrMissing) {
			b.Errorf("without a queue: %v", err)
		}
		synctest.Wait()
	})
}

// TestMoves has ElasticMQ do what SQS does: messages that were received too often, and a move of them.
func TestMoves(t *testing.T) {
	t.Parallel()
	l := onElasticMQ(t)
	d, _ := l.open(nil)
	lambda := l.create(d, deliverLambda("out", 9))
	q, err := d.FindDeadLetters(t.Context(), lambda, "high")
	if err != nil {
		t.Fatal(err)
	}
	for n := range 12 {
		if err := d.Deliver(t.Context(), deliveryOf(lambda, n, fmt.Append(nil, "payload ", n)))[0]; err != nil {
			t.Fatal(err)
		}
	}
	url := l.url("out-high")
	receive := func() (received int) {
		for empty := 0; ; { // one that moves messages to the dead-letter queue returns none, too
			got, err := l.api.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10, VisibilityTimeout: 1})
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Messages) > 0 {
				empty = 0
			} else if empty++; empty == 3 {
				return received
			}
			received += len(got.Messages)
			for _, m := range got.Messages {
				if _, err := l.api.ChangeMessageVisibility(t.Context(), &awssqs.ChangeMessageVisibilityInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	receive()
	letters, err := d.PeekDeadLetters(t.Context(), &q, 100, 1<<20)
	if err != nil || len(letters) != 12 || letters[0].TaskID != "k1abc" || letters[0].Due != task.FromMillis(1_700_000_000_123) {
		t.Fatalf("dead letters %+v, %v", letters, err)
	}
	move, err := d.MoveDeadLetters(t.Context(), &q, 500)
	for err == nil && move.State == queue.MoveRunning {
		var latest *queue.Move
		if _, latest, err = d.CountDeadLetters(t.Context(), &q); latest != nil {
			move = *latest
		}
	}
	if err != nil || move.State != "completed" || move.Moved != 12 {
		t.Fatalf("move %+v, %v", move, err)
	}
	if n, _, err := d.CountDeadLetters(t.Context(), &q); n != 0 || err != nil {
		t.Errorf("%d are dead after the move, %v", n, err)
	}
	if n := receive(); n < 12 {
		t.Errorf("%d messages can be received again, want 12", n)
	}
	if err := d.PurgeDeadLetters(t.Context(), &q); err != nil {
		t.Error(err)
	}
	if n, _, err := d.CountDeadLetters(t.Context(), &q); n != 0 || err != nil {
		t.Errorf("%d are left after the purge, %v", n, err)
	}
}

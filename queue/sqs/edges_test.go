package sqs_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/task"
)

// mail is a managed lambda's queue, out one in deliver mode.
var (
	mail = queue.Name{Lambda: 7}
	out  = queue.Name{Lambda: 10}
)

const mailURL = "https://sqs.us-east-1.amazonaws.com/000000000000/test-lambda7-high"

// inBubble runs a case with virtual time.
func inBubble(t *testing.T, run func(b *bubble)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		run(newBubble(t, nil))
	})
}

// send advances time until the messages are sent.
func (b *bubble) send(messages ...queue.Message) []error {
	b.Helper()
	results := make(chan []error, 1)
	go func() { results <- b.driver.Send(context.Background(), messages) }()
	for range 1000 {
		synctest.Wait()
		select {
		case r := <-results:
			return r
		default:
			b.time.Advance(5 * time.Millisecond)
		}
	}
	b.Fatal("a send does not come back")
	return nil
}

func (b *bubble) mustSend(messages ...queue.Message) {
	b.Helper()
	if err := errors.Join(b.send(messages...)...); err != nil {
		b.Fatal(err)
	}
}

// receive receives once, and cancels that after a time.
func (b *bubble) receive(within time.Duration, limit int, names ...queue.Name) []queue.Message {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	got := make(chan []queue.Message, 1)
	go func() {
		messages, _ := b.driver.Receive(ctx, names, limit, 0)
		got <- messages
	}()
	b.advance(within)
	cancel()
	return <-got
}

// all receives until no message comes within a time.
func (b *bubble) all(within time.Duration, names ...queue.Name) []queue.Message {
	b.Helper()
	var all []queue.Message
	for {
		got := b.receive(within, 100, names...)
		if len(got) == 0 {
			return all
		}
		all = append(all, got...)
	}
}

func (b *bubble) delete(messages ...queue.Message) {
	b.Helper()
	if err := b.driver.Delete(b.Context(), messages); err != nil {
		b.Error(err)
	}
}

func numbersOf(messages []queue.Message) []int {
	all := make([]int, 0, len(messages))
	for i := range messages {
		all = append(all, int(messages[i].Task.Attempt))
	}
	slices.Sort(all)
	return all
}

func (b *bubble) want(got []queue.Message, from, to int) {
	b.Helper()
	want := make([]int, 0, to-from)
	for n := from; n < to; n++ {
		want = append(want, n)
	}
	if got := numbersOf(got); !slices.Equal(got, want) {
		b.Errorf("received %v, want %d to %d", got, from, to-1)
	}
}

// A slow worker with one slot takes one task of a message: another process gets the others.
func TestASlowTaskDelaysNoOtherOfItsMessage(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.mustSend(batchOf(0, 20, b.clock.Now())...)
		if b.counts.messages != 2 {
			b.Fatalf("%d messages for 20 tasks, want 2", b.counts.messages)
		}
		slow := b.receive(0, 1, mail)
		if len(slow) != 1 {
			b.Fatalf("received %d", len(slow))
		}
		other := b.open(b.T, nil)
		got := other.all(2*sqs.HoldMax, mail)
		if len(got) != 19 {
			b.Errorf("the other process received %v", numbersOf(got))
		}
		other.delete(got...)
		b.delete(slow...)
		b.want(slices.Concat(slow, got), 0, 20)
		b.advance(5 * time.Minute)
		if late := other.all(time.Minute, mail); len(late) > 0 {
			b.Errorf("came again: %v", numbersOf(late))
		}
		if b.counts.resent < 9 || b.counts.resent > 19 {
			b.Errorf("%d tasks were sent anew", b.counts.resent)
		}
	})
}

// One task of a message is done, and the others cannot be sent again: they soon come again in another
// process.
func TestASplitMessageWhoseSendFailsComesAgain(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.mustSend(batchOf(0, 20, b.clock.Now())...)
		done := b.receive(0, 1, mail)
		b.delete(done...)
		b.service.Faults.Odds("SendMessageBatch", awsfake.Partial, 1)
		b.advance(time.Minute)
		b.service.Faults.Off()
		other := b.open(b.T, nil)
		got := other.all(2*time.Minute, mail)
		distinct := slices.Compact(numbersOf(got))
		if len(distinct) < 19 {
			b.Errorf("%d tasks are left of 19: %v", len(distinct), distinct)
		}
	})
}

// Other processes soon get the messages of a poll whose receiver left.
func TestNobodyIsLeftForWhatAPollBrings(t *testing.T) {
	inBubble(t, func(b *bubble) {
		if got := b.receive(time.Second, 5, mail); len(got) > 0 {
			b.Fatal(got)
		}
		other := b.open(b.T, nil)
		b.mustSend(taskOf(7, 0, b.clock.Now())) // to the poll that goes on
		got := other.receive(4*sqs.HoldMax, 5, mail)
		other.want(got, 0, 1)
	})
}

func TestCloseReturnsWhatNobodyTook(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.mustSend(batchOf(0, 8, b.clock.Now())...)
		got := b.receive(0, 3, mail)
		b.delete(got[:2]...)
		if err := b.driver.Close(); err != nil {
			b.Fatal(err)
		}
		other := b.open(b.T, nil)
		rest := other.all(time.Second, mail)
		if len(rest) != 5 {
			b.Errorf("the next process received %v at once", numbersOf(rest))
		}
		other.delete(rest...)
		// The one in hand comes again when its visibility timeout ends, perhaps with others of its message.
		if again := other.all(2*sqs.Visibility, mail); !slices.Contains(numbersOf(again), int(got[2].Task.Attempt)) {
			b.Errorf("what was in hand did not come again, only %v", numbersOf(again))
		}
	})
}

func TestWhatIsInHandStaysHidden(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.mustSend(batchOf(0, 3, b.clock.Now())...)
		got := b.receive(0, 3, mail)
		other := b.open(b.T, nil)
		if early := other.all(5*time.Minute, mail); len(early) > 0 {
			b.Fatalf("another process received %v of what is in hand", numbersOf(early))
		}
		b.delete(got...)
		if late := other.all(20*time.Minute, mail); len(late) > 0 {
			b.Errorf("another process received %v of what was deleted", numbersOf(late))
		}
		if n := b.counts.requests[sqsclient.ActionVisibility]; n < 5 || n > 50 {
			b.Errorf("%d requests to keep messages for 5 minutes", n)
		}
	})
}

func TestWhatIsKeptForTooLongComesAgain(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.mustSend(taskOf(7, 0, b.clock.Now()))
		got := b.receive(0, 3, mail)
		b.advance(11 * time.Minute)
		b.want(b.all(time.Second, mail), 0, 1)
		b.delete(got...) // of the earlier delivery
	})
}

func TestDuplicates(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.service.Faults.Next("ReceiveMessage", fakesqs.Twice, 2)
		b.mustSend(batchOf(0, 40, b.clock.Now())...)
		got := b.all(time.Second, mail)
		b.want(got, 0, 40)
		b.delete(got...)
		if again := b.all(time.Minute, mail); len(again) > 0 {
			b.Errorf("handed out again: %v", numbersOf(again))
		}
		if b.counts.discarded[sqs.DiscardDuplicate] == 0 {
			b.Error("nothing came twice, the test is void")
		}
	})
}

// A message that SQS delivers after its deletion is marked, so that its claim begins with a read.
func TestAMessageThatComesAfterItsDeletionIsMarked(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.service.Faults.Next("DeleteMessageBatch", fakesqs.Undead, 1)
		b.mustSend(taskOf(7, 0, b.clock.Now()))
		got := b.all(0, mail)
		b.want(got, 0, 1)
		b.delete(got...)
		again := b.all(time.Minute, mail)
		b.want(again, 0, 1)
		if got[0].Again || !again[0].Again {
			b.Errorf("marked: %v, then %v", got[0].Again, again[0].Again)
		}
		b.delete(again...)
		if more := b.all(time.Minute, mail); len(more) > 0 {
			b.Errorf("handed out once more: %v", numbersOf(more))
		}
	})
}

func TestSendsAreTriedAgainEntryByEntry(t *testing.T) {
	t.Parallel()
	for _, fault := range []awsfake.Fault{awsfake.Partial, awsfake.PartialDone} {
		t.Run(string(fault), func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.service.Faults.Next("SendMessageBatch", fault, 3)
				b.mustSend(batchOf(0, 100, b.clock.Now())...)
				got := b.all(0, mail)
				distinct := slices.Compact(numbersOf(got))
				if len(distinct) != 100 {
					b.Errorf("received %d tasks of 100", len(distinct))
				}
				if requests := b.counts.requests[sqsclient.ActionSend]; requests != 2 {
					b.Errorf("%d requests, want one and another for the 3 that failed", requests)
				}
			})
		})
	}
}

func TestSendGivesUpOnEntriesThatFailForGood(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.service.Faults.Odds("SendMessageBatch", awsfake.Partial, 1)
		failed := 0
		for _, err := range b.send(batchOf(0, 3, b.clock.Now())...) {
			if err != nil && !errors.Is(err, queue.ErrUndeliverable) {
				failed++
			}
		}
		if requests := b.counts.requests[sqsclient.ActionSend]; failed != 3 || requests > 4 {
			b.Errorf("%d of 3 failed after %d requests", failed, requests)
		}
	})
}

func TestUnknownOutcomes(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.service.Faults.Next("SendMessageBatch", awsfake.LostAnswer, 1)
		m := taskOf(7, 0, b.clock.Now())
		if err := b.send(m)[0]; err == nil {
			b.Fatal("a send without an answer is told to be good")
		}
		if b.counts.unknown != 1 {
			b.Errorf("%d outcomes were unknown", b.counts.unknown)
		}
		b.mustSend(m) // as the dispatcher does
		got := b.all(0, mail)
		if len(got) != 2 || got[0].Receipt == got[1].Receipt {
			b.Errorf("received %v, want both", numbersOf(got))
		}
	})
}

// put sends a body as another release or program would.
func (b *bubble) put(body string) {
	b.Helper()
	_, err := b.service.SendMessageBatch(b.Context(), &awssqs.SendMessageBatchInput{
		QueueUrl: aws.String(mailURL),
		Entries:  []types.SendMessageBatchRequestEntry{{Id: aws.String("0"), MessageBody: &body}},
	})
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bubble) left() int {
	b.Helper()
	out, err := b.service.GetQueueAttributes(b.Context(), &awssqs.GetQueueAttributesInput{
		QueueUrl: aws.String(mailURL), AttributeNames: []types.QueueAttributeName{"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"},
	})
	if err != nil {
		b.Fatal(err)
	}
	if out.Attributes["ApproximateNumberOfMessages"] == "0" && out.Attributes["ApproximateNumberOfMessagesNotVisible"] == "0" {
		return 0
	}
	return 1
}

func TestMessagesThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, body string
		deleted    bool
		reason     string
	}{
		{"somebody else's", "hello", false, sqs.DiscardUnsealed},
		{"no base64", "k2.%%", false, sqs.DiscardUnsealed},
		{"no seal", "k2.", false, sqs.DiscardUnsealed},
		{"half a seal", "k2.AQEB", false, sqs.DiscardUnsealed},
		{"of the format without seals", "k1.CgEB", false, sqs.DiscardUnsealed},
		{"of a key that is gone", sqs.SealedBefore([]byte("\x0a\x01\x01")), false, sqs.DiscardKeyGone},
		{"a row that is cut", sqs.Sealed([]byte("\x0a\x01\x01")), true, sqs.DiscardUndecodable},
		{"no task", sqs.Sealed(nil), true, sqs.DiscardUndecodable},
		{"a newer envelope", "k3.xyz", false, sqs.DiscardNewer},
		{"a newer row", sqs.Sealed([]byte("\x0a\x03\xff\x01\x01")), false, sqs.DiscardNewer},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.put(c.body)
				if got := b.all(10*time.Minute, mail); len(got) > 0 {
					b.Errorf("received %+v", got)
				}
				if deleted := b.left() == 0; deleted != c.deleted {
					b.Errorf("deleted: %v, want %v", deleted, c.deleted)
				}
				if seen := b.counts.discarded[c.reason]; seen == 0 || seen > 160 {
					b.Errorf("was discarded as %s %d times in 10 minutes: %v", c.reason, seen, b.counts.discarded)
				}
			})
		})
	}
}

// A message of two tasks, one of which cannot be given back while SQS refuses to send, is left to SQS as
// a whole. A task of it that stayed here would make the queue look older and older, and the scheduler wait.
func TestNoTaskStaysOfAMessageThatWasForgotten(t *testing.T) {
	inBubble(t, func(b *bubble) {
		first, second := b.clock.Now().Add(1200*time.Millisecond), b.clock.Now().Add(1900*time.Millisecond)
		b.mustSend(taskOf(7, 1, first), taskOf(7, 2, second), taskOf(7, 3, first), taskOf(7, 4, second))
		ctx, leave := context.WithCancel(b.Context())
		go func() { _, _ = b.driver.Receive(ctx, []queue.Name{mail}, 4, 0) }()
		b.advance(300 * time.Millisecond)
		leave()
		b.service.Faults.Odds("SendMessageBatch", awsfake.Refused, 1)
		b.advance(10 * time.Second)
		b.service.Faults.Off()
		b.advance(time.Hour)
		if depth, err := b.driver.Depth(b.Context(), mail); err != nil || depth.Oldest > time.Hour || depth.Visible > 2 {
			b.Errorf("%+v, %v", depth, err)
		}
		if got := b.all(time.Minute, mail); len(got) < 4 {
			b.Errorf("received %v", numbersOf(got))
		}
	})
}

// A delivery in the queue of a managed lambda is not deleted.
func TestADeliveryInTheQueueOfAManagedLambda(t *testing.T) {
	inBubble(t, func(b *bubble) {
		_, err := b.service.SendMessage(b.Context(), &awssqs.SendMessageInput{
			QueueUrl: aws.String(mailURL), MessageBody: aws.String("an invoice"),
			MessageAttributes: map[string]types.MessageAttributeValue{sqs.AttributeTaskID: {DataType: aws.String("String"), StringValue: aws.String("k1abc")}},
		})
		if err != nil {
			b.Fatal(err)
		}
		b.mustSend(taskOf(7, 1, b.clock.Now()))
		got := b.all(time.Second, mail)
		b.want(got, 1, 2)
		b.delete(got...)
		if got := b.all(time.Hour, mail); len(got) > 0 {
			b.Errorf("received %v", numbersOf(got))
		}
		if b.left() == 0 {
			b.Error("it was deleted")
		}
		if seen := b.counts.discarded[sqs.DiscardDelivery]; seen == 0 || seen > 5 || len(b.counts.discarded) > 1 {
			b.Errorf("discarded in an hour: %v", b.counts.discarded)
		}
	})
}

func TestTasksOfALambdaThatIsGone(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.mustSend(batchOf(0, 3, b.clock.Now())...)
		// Deleted and made again under the same name, so that its queue is the same.
		b.lambdas.remove(7)
		again := task.Lambda{Name: "lambda7", Ref: 70}.WithDefaults()
		b.lambdas.add(again)
		b.mustSend(taskOf(70, 9, b.clock.Now()))
		got := b.all(10*time.Second, queue.Name{Lambda: 70})
		b.want(got, 9, 10)
		b.delete(got...)
		if stale := b.all(10*time.Minute, queue.Name{Lambda: 70}); len(stale) > 0 {
			b.Errorf("received %v of a lambda that is gone", numbersOf(stale))
		}
		if seen := b.counts.discarded[sqs.DiscardUnknown]; seen == 0 || seen > 20 {
			b.Errorf("discarded %d times", seen)
		}
		b.advance(time.Hour)
		if depth, err := b.driver.Depth(b.Context(), queue.Name{Lambda: 70}); err != nil || depth.Visible != 0 {
			b.Errorf("left: %+v, %v", depth, err)
		}
	})
}

func TestALambdaThatIsNotKnownHereYet(t *testing.T) {
	inBubble(t, func(b *bubble) {
		other := b.open(b.T, func(c *sqs.Config) { c.Lambda = task7As(77) })
		b.mustSend(taskOf(7, 0, b.clock.Now()))
		if got := other.all(time.Second, queue.Name{Lambda: 77}); len(got) > 0 {
			b.Errorf("received %v of a lambda that is not known", numbersOf(got))
		}
		b.want(b.all(30*time.Second, mail), 0, 1)
	})
}

// task7As returns a catalog with another reference for the name of lambda 7.
func task7As(ref uint32) func(uint32) (task.Lambda, bool) {
	return func(asked uint32) (task.Lambda, bool) {
		return task.Lambda{Name: "lambda7", Ref: ref}.WithDefaults(), asked == ref
	}
}

func TestAQueueThatGoesAndComesBack(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.mustSend(taskOf(7, 0, b.clock.Now()))
		b.want(b.all(0, mail), 0, 1)
		if _, err := b.service.DeleteQueue(b.Context(), &awssqs.DeleteQueueInput{QueueUrl: aws.String(mailURL)}); err != nil {
			b.Fatal(err)
		}
		err := b.send(taskOf(7, 1, b.clock.Now()))[0]
		if !errors.Is(err, sqs.ErrNoQueue) || !strings.Contains(err.Error(), "test-lambda7-high") {
			b.Errorf("send to a queue that is gone: %v", err)
		}
		lambda, _ := b.lambdas.get(7)
		if err := b.driver.Provision(b.Context(), lambda); err == nil || !strings.Contains(err.Error(), "60 seconds") {
			b.Errorf("made again at once: %v", err)
		}
		before := b.service.Calls(awsfake.Any)
		if got := b.receive(time.Minute, 5, mail); len(got) > 0 {
			b.Error(got)
		}
		if asked := b.service.Calls(awsfake.Any) - before; asked > 40 {
			b.Errorf("%d requests in a minute for a queue that is gone", asked)
		}
		if err := b.driver.Provision(b.Context(), lambda); err != nil {
			b.Fatal(err)
		}
		b.mustSend(taskOf(7, 2, b.clock.Now()))
		b.want(b.all(20*time.Second, mail), 2, 3)
	})
}

func TestServiceThatIsAway(t *testing.T) {
	t.Parallel()
	for _, fault := range []awsfake.Fault{awsfake.LostRequest, awsfake.Refused, awsfake.Throttled, awsfake.Denied} {
		t.Run(string(fault), func(t *testing.T) {
			inBubble(t, func(b *bubble) {
				b.mustSend(batchOf(0, 50, b.clock.Now())...)
				got := b.receive(0, 20, mail)
				b.service.Faults.Odds(awsfake.Any, fault, 1)
				before := b.service.Calls(awsfake.Any)
				b.delete(got...)
				if err := b.send(taskOf(7, 99, b.clock.Now()))[0]; err == nil {
					b.Error("sent to a service that is away")
				}
				rest := b.all(time.Minute, mail)
				if asked := b.service.Calls(awsfake.Any) - before; asked > 60 {
					b.Errorf("%d requests in about a minute to a service that is away", asked)
				}
				b.service.Faults.Off()
				rest = append(rest, b.all(2*time.Minute, mail)...)
				seen := slices.Compact(numbersOf(slices.Concat(got, rest)))
				if len(seen) != 50 {
					b.Errorf("%d of 50 tasks came: %v", len(seen), seen)
				}
			})
		})
	}
}

// A poll whose connection is dead looks like one of an empty queue. It is cancelled when other requests are
// answered again after one was not.
func TestAPollOnADeadConnectionIsGivenUp(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.service.Faults.StallFor(time.Minute)
		b.service.Faults.Odds("ReceiveMessage", awsfake.Stalled, 1)
		late, done := b.work(5, mail)
		b.advance(time.Second)
		b.service.Faults.Odds("ReceiveMessage", awsfake.Stalled, 0)
		b.service.Faults.Next("SendMessageBatch", awsfake.LostRequest, 1)
		if err := b.send(taskOf(7, 1, b.clock.Now()))[0]; err == nil {
			b.Fatal("the send was answered, the test is void")
		}
		b.advance(time.Second)
		b.mustSend(taskOf(7, 2, b.clock.Now()))
		b.advance(100 * time.Millisecond)
		if done.Load() != 1 || late.Load() > int64(50*time.Millisecond) {
			b.Errorf("%d tasks came after the service was back, %v late", done.Load(), time.Duration(late.Load()))
		}
	})
}

func TestSilenceAtTheInFlightBound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, nil)
		b.service = fakesqs.New(fakesqs.Config{Clock: b.clock, InFlightMax: 5})
		b = b.open(t, func(c *sqs.Config) { c.PackTasksMax = 1 })
		provision(t, b.driver, b.lambdas)
		b.mustSend(batchOf(0, 12, b.clock.Now())...)
		var got []queue.Message
		for len(got) < 12 {
			part := b.receive(25*time.Second, 12, mail) // a poll at the bound returns nothing
			if len(part) == 0 {
				t.Fatalf("stuck with %d of 12", len(got))
			}
			got = append(got, part...)
			b.delete(part...)
			b.advance(2 * sqs.DeleteLinger)
		}
		b.want(got, 0, 12)
	})
}

func TestTooLarge(t *testing.T) {
	inBubble(t, func(b *bubble) {
		m := taskOf(7, 0, b.clock.Now())
		m.Task.Payload = make([]byte, sqs.MessageBytesMaxDefault)
		m.Task.PayloadSize = uint32(len(m.Task.Payload))
		results := b.send(m, taskOf(7, 1, b.clock.Now()))
		if !errors.Is(results[0], task.ErrInvalid) || !strings.Contains(results[0].Error(), "262144") || results[1] != nil {
			b.Errorf("results %v", results)
		}
		m.Task.Payload = make([]byte, sqs.MessageBytesMaxDefault/4*3-200)
		m.Task.PayloadSize = uint32(len(m.Task.Payload))
		b.mustSend(m)
		b.want(b.all(0, mail), 0, 2)
	})
}

func TestHeldBackUntilDue(t *testing.T) {
	inBubble(t, func(b *bubble) {
		due := b.clock.Now().Add(90*time.Second + 250*time.Millisecond)
		b.mustSend(taskOf(7, 0, due))
		late, done := b.work(5, mail)
		b.advance(due.Sub(b.clock.Now()) - 21*time.Millisecond)
		if done.Load() != 0 {
			b.Error("handed out before half of what was looked ahead for")
		}
		b.advance(time.Second)
		if done.Load() != 1 || late.Load() > 0 {
			b.Errorf("%d came, %v late", done.Load(), time.Duration(late.Load()))
		}
		if n := b.counts.requests[sqsclient.ActionReceive]; n > 7 {
			b.Errorf("%d polls in 90 seconds", n)
		}
	})
}

func TestSuspectsHaveMessagesOfTheirOwn(t *testing.T) {
	inBubble(t, func(b *bubble) {
		batch := batchOf(0, 12, b.clock.Now())
		for i := range 4 {
			batch[i].Task.Suspect = true
			batch[i].Task.Blamed = uint32(i / 2)
		}
		b.mustSend(batch...)
		if b.counts.messages != 6 {
			b.Errorf("%d messages, want 4 of one suspect each and 2 of the others", b.counts.messages)
		}
		b.want(b.receive(0, 20, queue.Name{Lambda: 7, Class: queue.Blamed}), 2, 4)
		b.want(b.receive(0, 20, queue.Name{Lambda: 7, Class: queue.Suspect}), 0, 2)
		b.want(b.receive(0, 20, mail), 4, 12)
	})
}

// A process with one free slot takes no suspects: it lets go of a blamed task that a poll returned, and
// polls on.
func TestASuspectThatNobodyTakesStopsNoPolls(t *testing.T) {
	inBubble(t, func(b *bubble) {
		blamed := taskOf(7, 0, b.clock.Now())
		blamed.Task.Suspect, blamed.Task.Blamed = true, 1
		b.mustSend(blamed)
		got := make(chan int, 1)
		go func() {
			messages, _ := b.driver.Receive(b.Context(), []queue.Name{mail}, 1, 0)
			got <- len(messages)
		}()
		b.advance(5 * time.Second)
		b.mustSend(taskOf(7, 1, b.clock.Now()))
		b.advance(30 * time.Second)
		select {
		case n := <-got:
			if n != 1 {
				t.Errorf("%d messages, want 1", n)
			}
		default:
			t.Error("no message in 30 s")
		}
	})
}

// While a process runs a blamed task it takes no other one: its polls must not fetch those over and over.
func TestSuspectsThatNobodyTakesHereAreLeftAlone(t *testing.T) {
	inBubble(t, func(b *bubble) {
		blamed := taskOf(7, 0, b.clock.Now())
		blamed.Task.Suspect, blamed.Task.Blamed = true, 1
		b.mustSend(blamed)
		if got := b.receive(10*time.Minute, 5, mail); len(got) > 0 {
			b.Fatal(got)
		}
		if n := b.counts.total(); n > 300 {
			b.Errorf("%d requests in 10 minutes", n)
		}
		b.want(b.all(11*time.Second, queue.Name{Lambda: 7, Class: queue.Blamed}), 0, 1)
	})
}

func TestReleasedOverAndOverGoesToOthers(t *testing.T) {
	inBubble(t, func(b *bubble) {
		other := b.open(b.T, nil)
		b.mustSend(taskOf(7, 0, b.clock.Now()))
		rounds := 0
		for ; rounds < 50; rounds++ {
			got := b.receive(0, 5, mail)
			if len(got) == 0 {
				break
			}
			if rounds == 0 { // from now on receivers wait in both processes
				go func() { _, _ = other.driver.Receive(b.Context(), []queue.Name{mail}, 1, 0) }()
				synctest.Wait()
			}
			if err := b.driver.Release(b.Context(), got, 0); err != nil {
				b.Fatal(err)
			}
			synctest.Wait()
		}
		if rounds > 5 {
			b.Errorf("the same process had it %d times", rounds)
		}
	})
}

func TestDepth(t *testing.T) {
	inBubble(t, func(b *bubble) {
		depth := func() queue.Depth {
			b.Helper()
			b.advance(6 * time.Second) // longer than an answer is fresh
			d, err := b.driver.Depth(b.Context(), mail)
			if err != nil {
				b.Fatal(err)
			}
			return d
		}
		if d := depth(); d != (queue.Depth{}) {
			b.Errorf("empty: %+v", d)
		}
		b.mustSend(batchOf(0, 20, b.clock.Now())...)
		before := b.service.Calls("GetQueueAttributes")
		if d, err := b.driver.Depth(b.Context(), mail); err != nil || d.Visible != 20 {
			b.Errorf("at once: %+v, %v", d, err)
		}
		if asked := b.service.Calls("GetQueueAttributes") - before; asked > 0 {
			b.Errorf("asked %d times although it was asked just now", asked)
		}
		if d := depth(); d.Visible == 0 || d.Oldest < 6*time.Second || d.Oldest > 13*time.Second {
			b.Errorf("with 20 tasks in 2 messages: %+v", d)
		}
		got := b.all(0, mail)
		if d := depth(); d.Visible != 0 || d.InFlight != 20 || d.Oldest != 0 {
			b.Errorf("all in hand: %+v", d)
		}
		b.delete(got...)
		b.advance(2 * time.Second)
		if d := depth(); d != (queue.Depth{}) {
			b.Errorf("at the end: %+v", d)
		}
	})
}

// A process that starts beside a backlog must not take it for young, or the scheduler would send all of it
// again; nor for very old, or a lost message would not be sent again for as long.
func TestDepthOfABacklogOfUnknownAge(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.mustSend(batchOf(0, 20, b.clock.Now())...)
		b.advance(time.Minute)
		other := b.open(b.T, nil)
		if d, err := other.driver.Depth(b.Context(), mail); err != nil || d.Visible == 0 || d.Oldest != task.EnqueueTimeout {
			b.Errorf("depth %+v, %v", d, err)
		}
		b.advance(time.Minute)
		if d, err := other.driver.Depth(b.Context(), mail); err != nil || d.Oldest != time.Minute {
			b.Errorf("a minute later: depth %+v, %v", d, err)
		}
	})
}

// While SQS does not answer, all callers that ask for an unknown depth wait for one request.
func TestDepthIsAskedForOnceByAll(t *testing.T) {
	inBubble(t, func(b *bubble) {
		other := b.open(b.T, nil)
		b.service.Faults.StallFor(time.Hour)
		b.service.Faults.Odds("GetQueueAttributes", awsfake.Stalled, 1)
		const askers = 16
		began, errs, took := b.clock.Now(), make([]error, askers), make([]time.Duration, askers)
		for n := range askers {
			go func() {
				_, errs[n] = other.driver.Depth(b.Context(), mail)
				took[n] = b.clock.Now().Sub(began)
			}()
		}
		b.advance(time.Minute)
		for n := range askers {
			if errs[n] == nil || took[n] > sqs.RequestTimeout {
				b.Errorf("%v after %v", errs[n], took[n])
			}
		}
		b.service.Faults.Off()
		if _, err := other.driver.Depth(b.Context(), mail); err != nil {
			b.Errorf("after that: %v", err)
		}
	})
}

func TestSendOfALambdaThatIsNotKnown(t *testing.T) {
	inBubble(t, func(b *bubble) {
		results := b.send(taskOf(99, 0, b.clock.Now()), taskOf(7, 1, b.clock.Now()))
		if !errors.Is(results[0], sqs.ErrNoQueue) || results[1] != nil {
			b.Errorf("results %v", results)
		}
		if _, err := b.driver.Depth(b.Context(), queue.Name{Lambda: 99}); !errors.Is(err, sqs.ErrNoQueue) {
			b.Errorf("depth: %v", err)
		}
		if got := b.receive(time.Minute, 1, queue.Name{Lambda: 99}); len(got) > 0 {
			b.Errorf("received %v", got)
		}
	})
}

func TestSendWhoseCallerLeaves(t *testing.T) {
	inBubble(t, func(b *bubble) {
		b.service.Faults.Odds("SendMessageBatch", awsfake.Stalled, 1)
		ctx, cancel := context.WithCancelCause(b.Context())
		gone := errors.New("gone")
		results := make(chan []error, 1)
		go func() { results <- b.driver.Send(ctx, batchOf(0, 2, b.clock.Now())) }()
		synctest.Wait()
		cancel(gone)
		if r := <-results; !errors.Is(r[0], gone) || !errors.Is(r[1], gone) {
			b.Errorf("results %v", r)
		}
		b.want(b.all(5*time.Second, mail), 0, 2) // it was on its way
	})
}

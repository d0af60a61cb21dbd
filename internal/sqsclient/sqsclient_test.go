package sqsclient_test

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
	"github.com/aws/smithy-go"
	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/internal/awserr"
	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWhatErrorsMean(t *testing.T) {
	answer := func(code string, fault smithy.ErrorFault) error {
		return fmt.Errorf("request: %w", &smithy.GenericAPIError{Code: code, Fault: fault})
	}
	for _, c := range []struct {
		err                                 error
		missing, throttled, unknown, passes bool
	}{
		{err: nil},
		{err: answer("AWS.SimpleQueueService.NonExistentQueue", smithy.FaultClient), missing: true},
		{err: fmt.Errorf("queue q %w", sqsclient.ErrMissing), missing: true},
		{err: answer("RequestThrottled", smithy.FaultClient), throttled: true, passes: true},
		{err: answer("ThrottlingException", smithy.FaultClient), throttled: true, passes: true},
		{err: answer("KmsThrottled", smithy.FaultClient), throttled: true, passes: true},
		{err: answer("KMS.ThrottlingException", smithy.FaultClient), throttled: true, passes: true},
		{err: answer("AccessDenied", smithy.FaultClient)},
		{err: answer("InternalError", smithy.FaultServer), unknown: true, passes: true},
		{err: errors.New("connection reset"), unknown: true, passes: true},
		{err: context.DeadlineExceeded, unknown: true, passes: true},
		{err: context.Canceled, unknown: true}, // its caller cancelled it
		{err: &sqsclient.EntryError{Code: "InternalError"}, passes: true},
		{err: &sqsclient.EntryError{Code: "InvalidMessageContents", SenderFault: true}},
	} {
		if got := sqsclient.IsMissing(c.err); got != c.missing {
			t.Errorf("%v is missing: %v", c.err, got)
		}
		if got := awserr.IsThrottled(c.err); got != c.throttled {
			t.Errorf("%v is throttled: %v", c.err, got)
		}
		if got := sqsclient.IsUnknown(c.err); got != c.unknown {
			t.Errorf("%v is unknown: %v", c.err, got)
		}
		if got := sqsclient.IsTemporary(c.err); got != c.passes {
			t.Errorf("%v passes: %v", c.err, got)
		}
	}
}

// rig is a client over SQS in memory, in virtual time.
type rig struct {
	*testing.T
	*sqsclient.Client

	service *fakesqs.SQS
	time    *clock.Virtual
}

func run(t *testing.T, change func(*sqsclient.Config), test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := clock.NewVirtual(task.Instant(1_700_000_000_000_000), 1)
		v.Settle(synctest.Wait)
		r := &rig{T: t, time: v, service: fakesqs.New(fakesqs.Config{Clock: v.Process(0)})}
		name := "q"
		if _, err := r.service.CreateQueue(t.Context(), &awssqs.CreateQueueInput{QueueName: &name}); err != nil {
			t.Fatal(err)
		}
		config := sqsclient.Config{Clock: v.Process(0)}
		if change != nil {
			change(&config)
		}
		r.Client = sqsclient.New(r.service, config)
		test(r)
		r.Close()
		synctest.Wait()
	})
}

// during advances time until a call returns.
func (r *rig) during(call func()) {
	r.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	for range 1000 {
		synctest.Wait()
		select {
		case <-done:
			return
		default:
			r.time.Advance(100 * time.Millisecond)
		}
	}
	r.Fatal("a call does not come back")
}

// The outcome of a message whose first try got no answer stays unknown when a later try is refused.
func TestARefusalDoesNotUndoADoubt(t *testing.T) {
	run(t, func(c *sqsclient.Config) { c.RepeatSends = true }, func(r *rig) {
		r.service.Faults.Next("SendMessageBatch", awsfake.LostAnswer, 1)
		r.during(func() {
			go func() {
				_ = clock.Sleep(r.Context(), r.time.Process(0), time.Millisecond)
				r.service.Faults.Odds("SendMessageBatch", awsfake.Denied, 1)
			}()
			err := r.Send(r.Context(), "q", []sqsclient.Message{{Body: "a"}})[0]
			if err == nil || !sqsclient.IsUnknown(err) || !strings.Contains(err.Error(), "AccessDenied") {
				r.Errorf("%v", err)
			}
		})
	})
}

func TestBatchesKeepTheLimits(t *testing.T) {
	run(t, func(c *sqsclient.Config) { c.BytesMax = 1000 }, func(r *rig) {
		messages := append(slices.Repeat([]sqsclient.Message{{Body: "small"}}, 12),
			sqsclient.Message{Body: strings.Repeat("x", 600)}, sqsclient.Message{Body: strings.Repeat("y", 600)})
		if err := errors.Join(r.Send(r.Context(), "q", messages)...); err != nil {
			r.Error(err)
		}
		if n := r.service.Calls("SendMessageBatch"); n != 3 { // 10, 3 with the first large one, the other
			r.Errorf("%d requests", n)
		}
		got, err := r.Receive(r.Context(), "q", sqsclient.Poll{Max: 10, Visibility: time.Minute})
		if err != nil || len(got) == 0 || sqsclient.Receives(&got[0]) != 1 {
			r.Fatalf("%v, %v", got, err)
		}
		receipts := []string{"no receipt of ours"}
		for i := range got {
			receipts = append(receipts, *got[i].ReceiptHandle)
		}
		if err := r.Delete(r.Context(), "q", receipts); err != nil { // deleting twice is no error
			r.Error(err)
		}
	})
}

// Deletes and changes of visibility that fail as a whole are repeated.
func TestDeletesAreRepeated(t *testing.T) {
	run(t, nil, func(r *rig) {
		if err := errors.Join(r.Send(r.Context(), "q", []sqsclient.Message{{Body: "a"}, {Body: "b"}})...); err != nil {
			r.Fatal(err)
		}
		got, err := r.Receive(r.Context(), "q", sqsclient.Poll{Max: 10, Visibility: time.Minute})
		if err != nil {
			r.Fatal(err)
		}
		r.service.Faults.Next("DeleteMessageBatch", awsfake.Throttled, 2)
		r.during(func() {
			for i := range got {
				if err := r.Delete(r.Context(), "q", []string{*got[i].ReceiptHandle}); err != nil {
					r.Error(err)
				}
			}
		})
		r.service.Faults.Odds("ChangeMessageVisibilityBatch", awsfake.Throttled, 1)
		r.during(func() {
			if err := r.Hide(r.Context(), "q", []sqsclient.Hidden{{Receipt: "r"}}); !awserr.IsThrottled(err) {
				r.Errorf("%v", err)
			}
		})
		if n := r.service.Calls("ChangeMessageVisibilityBatch"); n != 4 {
			r.Errorf("%d tries", n)
		}
	})
}

// silent is a service whose answers leave out entries.
type silent struct{ *fakesqs.SQS }

func (s silent) SendMessageBatch(ctx context.Context, in *awssqs.SendMessageBatchInput, o ...func(*awssqs.Options)) (*awssqs.SendMessageBatchOutput, error) {
	out, err := s.SQS.SendMessageBatch(ctx, in, o...)
	if err == nil {
		out.Successful = out.Successful[:1]
	}
	return out, err
}

// TestAnEntryWithoutAnAnswerIsNotSent gives an answer for one of two messages.
func TestAnEntryWithoutAnAnswerIsNotSent(t *testing.T) {
	service := fakesqs.New(fakesqs.Config{Clock: clock.Real()})
	if _, err := service.CreateQueue(t.Context(), &awssqs.CreateQueueInput{QueueName: aws.String("q")}); err != nil {
		t.Fatal(err)
	}
	c := sqsclient.New(silent{service}, sqsclient.Config{Clock: clock.Real(), Tries: 1})
	defer c.Close()
	results := c.Send(t.Context(), "q", []sqsclient.Message{{Body: "one"}, {Body: "two"}})
	if results[0] != nil || results[1] == nil {
		t.Errorf("%v: want an error for the message that SQS says nothing of", results)
	}
}

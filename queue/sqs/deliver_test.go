package sqs_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"sort"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/task"
)

const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func deliveryOf(l task.Lambda, n int, payload []byte) []queue.Delivery {
	m := taskOf(l.Ref, n, task.FromMillis(1_700_000_000_123))
	m.Task.Traceparent = trace
	return []queue.Delivery{{Task: m.Task, ID: "k1abc", Payload: payload}}
}

// payloadOf reads a delivered message as a consumer does.
func payloadOf(t *testing.T, m *types.Message) []byte {
	t.Helper()
	switch encoding := m.MessageAttributes[sqs.AttributeEncoding]; aws.ToString(encoding.StringValue) {
	case "":
		return []byte(*m.Body)
	case sqs.EncodingBase64:
		payload, err := base64.StdEncoding.DecodeString(*m.Body)
		if err != nil {
			t.Error(err)
		}
		return payload
	case sqs.EncodingEmpty:
		return nil
	default:
		t.Errorf("encoding %s", *encoding.StringValue)
		return nil
	}
}

func TestDeliveredMessages(t *testing.T) {
	t.Parallel()
	l := onElasticMQ(t)
	d, _ := l.open(nil)
	lambda := l.create(d, deliverLambda("out", 9))
	url := l.url("out-high")
	for _, payload := range []string{
		`{"text":"untouched, with \"quotes\" & <signs>"}`, "äöü 漢字 😀", "line\r\n\ttab", "", "\x00\x01\xff", "bad\x08control", "\uFFFE", "\xed\xa0\x80",
	} {
		if err := d.Deliver(t.Context(), deliveryOf(lambda, 0, []byte(payload)))[0]; err != nil {
			t.Fatalf("%q: %v", payload, err)
		}
		got, err := l.api.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: url, WaitTimeSeconds: 5, MessageAttributeNames: []string{"All"}})
		if err != nil || len(got.Messages) != 1 {
			t.Fatalf("%q: %+v, %v", payload, got, err)
		}
		m := &got.Messages[0]
		if body := payloadOf(t, m); string(body) != payload {
			t.Errorf("payload %q came as %q", payload, body)
		}
		for name, want := range map[string]string{
			sqs.AttributeTaskID: "k1abc", sqs.AttributeDue: "2023-11-14T22:13:20.123Z", sqs.AttributeTraceparent: trace,
		} {
			if got := aws.ToString(m.MessageAttributes[name].StringValue); got != want {
				t.Errorf("%s is %q, want %q", name, got, want)
			}
		}
		if _, err := l.api.DeleteMessage(t.Context(), &awssqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTextIsWhatXMLAllows compares with the characters that SQS documents.
func TestTextIsWhatXMLAllows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var payload []byte
		for range rapid.IntRange(1, 8).Draw(t, "runes") {
			payload = append(payload, []byte(string(rapid.Rune().Draw(t, "rune")))...)
		}
		payload = append(payload, rapid.SliceOfN(rapid.Byte(), 0, 2).Draw(t, "bytes")...)
		want := bytes.Equal(payload, []byte(strings.ToValidUTF8(string(payload), "")))
		for _, r := range string(payload) {
			allowed := r == 0x9 || r == 0xA || r == 0xD || r >= 0x20 && r <= 0xD7FF || r >= 0xE000 && r <= 0xFFFD || r >= 0x10000
			want = want && allowed
		}
		if got := sqs.IsText(payload); got != want {
			t.Fatalf("%q is text: %v, want %v", payload, got, want)
		}
	})
}

func TestPayloadsThatCannotBeDelivered(t *testing.T) {
	inBubble(t, func(b *bubble) {
		large := bytes.Repeat([]byte("x"), sqs.MessageBytesMaxDefault)
		most := sort.Search(len(large), func(n int) bool { return b.driver.CheckPayload(large[:n]) != nil }) - 1
		if most < sqs.MessageBytesMaxDefault-1024 {
			b.Errorf("only %d bytes of text can be delivered", most)
		}
		lambda, _ := b.lambdas.get(out.Lambda)
		fits, tooLarge := deliveryOf(lambda, 0, large[:most]), deliveryOf(lambda, 1, large[:most+1])
		fits[0].ID = strings.Repeat("i", 300)
		binary := deliveryOf(lambda, 2, bytes.Repeat([]byte{0}, most))
		results := b.deliver(fits[0], tooLarge[0], binary[0])
		if results[0] != nil || !errors.Is(results[1], queue.ErrUndeliverable) || !errors.Is(results[2], queue.ErrUndeliverable) {
			b.Errorf("results %v", results)
		}
	})
}

func (b *bubble) deliver(deliveries ...queue.Delivery) []error {
	b.Helper()
	results := make(chan []error, 1)
	go func() { results <- b.driver.Deliver(b.Context(), deliveries) }()
	b.advance(time.Minute)
	select {
	case r := <-results:
		return r
	default:
		b.Fatal("a delivery does not come back")
		return nil
	}
}

func TestDelayIsNeverShorter(t *testing.T) {
	inBubble(t, func(b *bubble) {
		lambda, _ := b.lambdas.get(out.Lambda)
		first, second := deliveryOf(lambda, 0, []byte("a")), deliveryOf(lambda, 1, []byte("b"))
		first[0].Delay, second[0].Delay = 1500*time.Millisecond, queue.DelayMax
		sent := b.clock.Now()
		results := make(chan []error, 1)
		go func() { results <- b.driver.Deliver(b.Context(), []queue.Delivery{first[0], second[0]}) }()
		synctest.Wait()
		if err := errors.Join(<-results...); err != nil {
			b.Fatal(err)
		}
		url := aws.String("https://sqs.us-east-1.amazonaws.com/000000000000/test-out-high")
		for _, want := range []struct {
			body  string
			after time.Duration
		}{{"a", 2 * time.Second}, {"b", queue.DelayMax}} {
			for {
				got, err := b.service.ReceiveMessage(b.Context(), &awssqs.ReceiveMessageInput{QueueUrl: url, VisibilityTimeout: 43200})
				if err != nil {
					b.Fatal(err)
				}
				if len(got.Messages) == 0 {
					b.time.Advance(500 * time.Millisecond)
					continue
				}
				if after := b.clock.Now().Sub(sent); *got.Messages[0].Body != want.body || after != want.after {
					b.Errorf("%s came after %v, want %s after %v", *got.Messages[0].Body, after, want.body, want.after)
				}
				break
			}
		}
	})
}

func TestDeliveryOutcomes(t *testing.T) {
	inBubble(t, func(b *bubble) {
		lambda, _ := b.lambdas.get(out.Lambda)
		b.service.Faults.Next("SendMessageBatch", awsfake.Partial, 2)
		if err := errors.Join(b.deliver(deliveryOf(lambda, 0, []byte("a"))[0], deliveryOf(lambda, 1, []byte("b"))[0])...); err != nil {
			b.Errorf("entries that failed once: %v", err)
		}
		b.service.Faults.Next("SendMessageBatch", awsfake.LostAnswer, 1)
		if err := b.deliver(deliveryOf(lambda, 2, []byte("c"))...)[0]; err == nil || errors.Is(err, queue.ErrUndeliverable) {
			b.Errorf("without an answer: %v", err)
		}
		b.service.Faults.Odds("SendMessageBatch", awsfake.Denied, 1)
		if err := b.deliver(deliveryOf(lambda, 3, []byte("d"))...)[0]; err == nil || !strings.Contains(err.Error(), "test-out-high") {
			b.Errorf("when it is denied: %v", err)
		}
		unknown := deliveryOf(task.Lambda{Ref: 99}, 4, []byte("e"))
		if err := b.deliver(unknown...)[0]; !errors.Is(err, sqs.ErrNoQueue) {
			b.Errorf("of a lambda that is not known: %v", err)
		}
		_ = b.driver.Close()
		if err := b.driver.Deliver(b.Context(), deliveryOf(lambda, 5, nil))[0]; !errors.Is(err, queue.ErrClosed) {
			b.Errorf("after close: %v", err)
		}
	})
}

// Workers receive nothing from the queue of a lambda in deliver mode, and the queue of a managed lambda
// gets no delivery.
func TestQueuesAreForOneUse(t *testing.T) {
	inBubble(t, func(b *bubble) {
		lambda, _ := b.lambdas.get(out.Lambda)
		if err := b.deliver(deliveryOf(lambda, 0, []byte("theirs"))...)[0]; err != nil {
			b.Fatal(err)
		}
		if got := b.receive(time.Minute, 5, out); len(got) > 0 || b.service.Calls("ReceiveMessage") > 0 {
			b.Errorf("received %v of a consumer's messages with %d receives", got, b.service.Calls("ReceiveMessage"))
		}
		if err := b.send(taskOf(out.Lambda, 1, b.clock.Now()))[0]; !errors.Is(err, sqs.ErrNoQueue) {
			b.Errorf("a task was sent to a consumer: %v", err)
		}
		managed, _ := b.lambdas.get(mail.Lambda)
		if err := b.deliver(deliveryOf(managed, 2, []byte("ours"))...)[0]; !errors.Is(err, sqs.ErrNoQueue) {
			b.Errorf("delivered to workers: %v", err)
		}
	})
}

// The depth of the queue of a deliver lambda has what nobody has received, delayed or not.
func TestDepthOfADeliverLambda(t *testing.T) {
	inBubble(t, func(b *bubble) {
		lambda, _ := b.lambdas.get(out.Lambda)
		late := deliveryOf(lambda, 1, []byte("b"))[0]
		late.Delay = queue.DelayMax
		if err := errors.Join(b.deliver(deliveryOf(lambda, 0, []byte("a"))[0], late)...); err != nil {
			b.Fatal(err)
		}
		if d, err := b.driver.Depth(b.Context(), queue.NameFor(&late.Task)); err != nil || d.Visible != 2 {
			b.Errorf("%+v, %v, want 2 messages", d, err)
		}
	})
}

//go:build !windows

package sqsinbound_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/kinesin-io/kinesin/inbound/buffer/sqsbuffer"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sqsinbound"
)

// recorder keeps what is sent to the queue.
type recorder struct {
	*fakesqs.SQS

	sent strings.Builder
}

// SendMessageBatch implements sqsinbound.API.
func (r *recorder) SendMessageBatch(ctx context.Context, in *awssqs.SendMessageBatchInput, options ...func(*awssqs.Options)) (*awssqs.SendMessageBatchOutput, error) {
	for _, e := range in.Entries {
		r.sent.WriteString(aws.ToString(e.MessageBody))
	}
	return r.SQS.SendMessageBatch(ctx, in, options...)
}

// A payload that went through the queue is decoded by a worker and by a read, as that of its task.
func TestPayloadsAreEncodedOnTheWay(t *testing.T) {
	t.Parallel()
	codec, err := sdk.NewAESGCMCodec(sdk.PayloadKey{ID: "a", Secret: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	queues := &recorder{SQS: fakesqs.New(fakesqs.Config{Seed: 1, Attempts: 5})}
	server := serve(t, queues.SQS, "prod", func(c *sqsbuffer.Config) { c.PollGrace, c.Visibility = -1, time.Second }, sdk.WithPayloadCodec(codec))
	raw := sdk.NewLambda[[]byte]("raw")
	if err := admin.New(server).Lambdas.Ensure(t.Context(), raw, admin.Lambda{}); err != nil {
		t.Fatal(err)
	}
	key, err := admin.New(server).InboundKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client, err := sqsinbound.New(queues, "prod", key, sqsinbound.WithPayloadCodec(codec))
	if err != nil {
		t.Fatal(err)
	}
	secret := bytes.Repeat([]byte("4111"), 12) // of which base64 has "NDExMTQxMTE0MTEx", wherever it begins
	got := make(chan []byte, 1)
	w := sdk.NewWorker(server)
	raw.Handle(w, func(_ context.Context, task *sdk.Task[[]byte]) error {
		got <- bytes.Clone(task.Args)
		return nil
	})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	id, err := raw.Schedule(t.Context(), client, secret)
	if err != nil {
		t.Fatal(err)
	}
	waiting, cancel := clock.Within(t.Context(), clock.Real(), time.Minute)
	defer cancel()
	if results, err := server.Wait(waiting, id); err != nil || results[0].Task.State != sdk.StateSuccess {
		t.Fatalf("%+v, %v", results, err)
	}
	if plain := <-got; !bytes.Equal(plain, secret) {
		t.Errorf("the handler got %q", plain)
	}
	if info, err := server.Get(t.Context(), id, sdk.WithPayload()); err != nil || !bytes.Equal(info.Payload, secret) {
		t.Errorf("%q, %v", info.Payload, err)
	}
	stop()
	if err := errors.Join(<-done, client.Close(t.Context())); err != nil {
		t.Error(err)
	}
	if sent := queues.sent.String(); sent == "" || strings.Contains(sent, "NDExMTQxMTE0MTEx") || strings.Contains(sent, "4111") {
		t.Errorf("the queue got %q", sent)
	}
}

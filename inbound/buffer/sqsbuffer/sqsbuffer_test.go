package sqsbuffer_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/inbound/buffer/buffertest"
	"github.com/kinesin-io/kinesin/inbound/buffer/sqsbuffer"
	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(awslocal.Main(m)) }

// open returns a buffer for the suite.
func open(t *testing.T, api interface {
	sqsclient.API
	sqsclient.SetupAPI
}, prefix string,
) buffer.Buffer {
	t.Helper()
	if _, err := sqsclient.Create(t.Context(), api, sqsbuffer.Queues(prefix)); err != nil {
		t.Fatal(err)
	}
	return sqsbuffer.New(api, sqsbuffer.Config{
		Prefix: prefix, Clock: clock.Real(), Visibility: buffertest.Visibility, MessageBytesMax: 20_000, PollGrace: -1,
	})
}

func TestConformanceOnElasticMQ(t *testing.T) {
	t.Parallel()
	aws := awslocal.Start(t)
	api := awssqs.NewFromConfig(aws.Config(t))
	buffertest.Run(t, func(t *testing.T) buffer.Buffer {
		t.Helper()
		return open(t, api, aws.Prefix(t))
	})
}

func TestConformanceOnTheStandIn(t *testing.T) {
	t.Parallel()
	buffertest.RunIn(t, synctest.Test, func(t *testing.T) buffer.Buffer {
		t.Helper()
		service := fakesqs.New(fakesqs.Config{Seed: 1, Attempts: 5})
		b := open(t, service, "test")
		service.Faults.Odds(awsfake.Any, awsfake.Partial, 0.05)
		service.Faults.Odds(awsfake.Any, awsfake.Throttled, 0.1)
		service.Faults.Odds("ReceiveMessage", fakesqs.Reordered, 0.5)
		return b
	})
}

func TestQueues(t *testing.T) {
	service := fakesqs.New(fakesqs.Config{})
	specs := sqsbuffer.Queues("shop")
	made, err := sqsclient.Create(t.Context(), service, specs)
	if err != nil || !slices.Equal(made, []string{"shop-inbound-dlq", "shop-inbound"}) {
		t.Errorf("%v, %v", made, err)
	}
	if made, err = sqsclient.Create(t.Context(), service, specs); err != nil || len(made) != 0 {
		t.Errorf("again: %v, %v", made, err)
	}
	if differences, err := sqsclient.Check(t.Context(), service, specs); err != nil || len(differences) != 0 {
		t.Errorf("%v, %v", differences, err)
	}
}

func TestAQueueThatIsNotThere(t *testing.T) {
	service := fakesqs.New(fakesqs.Config{})
	b := sqsbuffer.New(service, sqsbuffer.Config{Prefix: "shop", Clock: clock.Real()})
	check := func(what string, err error) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), "shop-inbound does not exist") || !strings.Contains(err.Error(), "kinesin aws setup") {
			t.Errorf("%s: %v", what, err)
		}
	}
	send := func() error { return b.Send(t.Context(), []buffer.Outgoing{{Body: "a"}})[0] }
	_, err := b.Receive(t.Context(), 1)
	check("receive", err)
	check("send", send())
	check("delete", b.Delete(t.Context(), []buffer.Message{{Receipt: "r"}}))
	if _, err := sqsclient.Create(t.Context(), service, sqsbuffer.Queues("shop")); err != nil {
		t.Fatal(err)
	}
	if err := send(); err != nil {
		t.Errorf("then: %v", err)
	}
	got, err := b.Receive(t.Context(), 1)
	if err != nil || len(got) != 1 || b.Close() != nil {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := b.Receive(t.Context(), 0); err == nil {
		t.Error("receive of nothing")
	}
}

func TestFewRequests(t *testing.T) {
	service := fakesqs.New(fakesqs.Config{})
	b := open(t, service, "shop")
	before := service.Calls(awsfake.Any)
	messages := make([]buffer.Outgoing, 40)
	for i := range messages {
		messages[i].Body = fmt.Sprint(i)
	}
	if err := errors.Join(b.Send(t.Context(), messages)...); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		got, err := b.Receive(t.Context(), 10)
		if err != nil || len(got) != 10 {
			t.Fatalf("%d, %v", len(got), err)
		}
		if err := b.Delete(t.Context(), got); err != nil {
			t.Fatal(err)
		}
	}
	if n := service.Calls(awsfake.Any) - before; n != 1+4+4+4 { // 1 to find the queue
		t.Errorf("%d requests", n)
	}
}

// A poll returns the messages that it receives just after its caller left.
func TestAPollIsNotCutOffWithMessagesInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := clock.NewVirtual(task.Instant(1_700_000_000_000_000), 1)
		v.Settle(synctest.Wait)
		service := fakesqs.New(fakesqs.Config{Clock: v.Process(0)})
		if _, err := sqsclient.Create(t.Context(), service, sqsbuffer.Queues("shop")); err != nil {
			t.Fatal(err)
		}
		b := sqsbuffer.New(service, sqsbuffer.Config{Prefix: "shop", Clock: v.Process(0)})
		type answer struct {
			messages []buffer.Message
			err      error
		}
		receive := func(ctx context.Context) <-chan answer {
			done := make(chan answer, 1)
			go func() {
				messages, err := b.Receive(ctx, 10)
				done <- answer{messages, err}
			}()
			synctest.Wait()
			return done
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := receive(ctx)
		cancel()
		synctest.Wait()
		if err := b.Send(t.Context(), []buffer.Outgoing{{Body: "a"}})[0]; err != nil {
			t.Fatal(err)
		}
		v.Advance(500 * time.Millisecond)
		if got := <-done; len(got.messages) != 1 || got.err != nil {
			t.Errorf("%v", got)
		}
		ctx, cancel = context.WithCancel(t.Context())
		done = receive(ctx)
		cancel()
		synctest.Wait()
		v.Advance(time.Second)
		if got := <-done; len(got.messages) != 0 || !errors.Is(got.err, context.Canceled) {
			t.Errorf("%v", got)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		synctest.Wait()
	})
}

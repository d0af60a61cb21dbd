package sqs_test

import (
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue/queuetest"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/task"
)

const start = task.Instant(1_700_000_000_000_000)

// suiteLambdas returns the lambdas of the conformance suite.
func suiteLambdas() *lambdas {
	all := &lambdas{}
	for _, ref := range []uint32{7, 8, 9} {
		all.add(task.Lambda{Name: fmt.Sprintf("lambda%d", ref), Ref: ref}.WithDefaults())
	}
	return all
}

func provision(t *testing.T, d *sqs.Driver, all *lambdas) {
	t.Helper()
	for _, l := range all.list() {
		if err := d.Provision(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
}

// atOnce makes no request wait for others: the suite sends one message after the other and lets no time pass.
func atOnce(c *sqs.Config) {
	c.Linger, c.DeliverLinger, c.AnswerMax, c.CloseGrace = -1, -1, -1, -1
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, how := range []struct {
		name   string
		faults func(*fakesqs.SQS)
	}{
		{name: "all well"},
		{name: "reordered", faults: func(s *fakesqs.SQS) { s.Faults.Odds("ReceiveMessage", fakesqs.Reordered, 0.5) }},
	} {
		t.Run(how.name, func(t *testing.T) {
			t.Parallel()
			queuetest.Run(t, func(t *testing.T) queuetest.Harness {
				t.Helper()
				v := clock.NewVirtual(start, 1)
				v.Settle(synctest.Wait)
				c := v.Process(30 * time.Millisecond)
				service := fakesqs.New(fakesqs.Config{Clock: v.Process(0)})
				if how.faults != nil {
					how.faults(service)
				}
				all := suiteLambdas()
				config := sqs.Config{
					Prefix: "test", Codec: sqs.StoreCodec, Lambda: all.get, Lambdas: all.list, Clock: c, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
				}
				atOnce(&config)
				d := sqs.New(service, config)
				provision(t, d, all)
				return queuetest.Harness{
					Driver: d, Now: c.Now, Forget: all.remove,
					Advance: func(by time.Duration) {
						synctest.Wait()
						v.Advance(by)
						synctest.Wait()
					},
				}
			})
		})
	}
}

func TestConformanceOnElasticMQ(t *testing.T) {
	t.Parallel()
	aws := awslocal.Start(t)
	queuetest.RunReal(t, func(t *testing.T) queuetest.Harness {
		t.Helper()
		all, c := suiteLambdas(), clock.Real()
		d := sqs.New(awssqs.NewFromConfig(aws.Config(t)), sqs.Config{
			Prefix: aws.Prefix(t), Codec: sqs.StoreCodec, Lambda: all.get, Lambdas: all.list, Clock: c, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		})
		provision(t, d, all)
		return queuetest.Harness{Driver: d, Now: c.Now, Forget: all.remove, Advance: time.Sleep}
	})
}

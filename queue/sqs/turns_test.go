package sqs_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/task"
)

// uneven is a service whose answers about the queue of low come first.
type uneven struct {
	*fakesqs.SQS

	clock clock.Clock
}

func (u *uneven) ReceiveMessage(ctx context.Context, in *awssqs.ReceiveMessageInput, options ...func(*awssqs.Options)) (*awssqs.ReceiveMessageOutput, error) {
	took := 20 * time.Millisecond
	if strings.HasSuffix(aws.ToString(in.QueueUrl), "-low") {
		took = 5 * time.Millisecond
	}
	if err := clock.Sleep(ctx, u.clock, took); err != nil {
		return nil, err
	}
	return u.SQS.ReceiveMessage(ctx, in, options...)
}

// inUneven runs a case over such a service.
func inUneven(t *testing.T, run func(b *bubble)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble(t, nil)
		config := b.driver.Config
		config.CloseGrace = -1
		_ = b.driver.Close()
		b.driver = sqs.New(&uneven{b.service, b.clock}, config)
		b.driver.UseSealer(sqs.TestSealer)
		t.Cleanup(func() { _ = b.driver.Close() })
		run(b)
	})
}

var bothQueues = []queue.Name{{Lambda: 7}, {Lambda: 7, Priority: 2}}

func ofPriority(priority uint8, from, n int, due task.Instant) []queue.Message {
	batch := batchOf(from, n, due)
	for i := range batch {
		batch[i].Task.Partition.Priority = priority
	}
	return batch
}

// taken receives in so many slots, each of which is busy for a while with each task, and returns how many
// tasks of each priority came.
func (b *bubble) taken(slots int, attempt, d time.Duration) map[uint8]int {
	b.Helper()
	free, count := make(chan int, slots), map[uint8]int{}
	free <- slots
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		for {
			var n int
			select {
			case n = <-free:
			case <-ctx.Done():
				return
			}
			for n > 0 {
				got, err := b.driver.Receive(ctx, bothQueues, n, 0)
				if err != nil {
					return
				}
				n -= len(got)
				for i := range got {
					count[got[i].Task.Partition.Priority]++
				}
				_ = b.driver.Delete(ctx, got)
				go func() {
					if clock.Sleep(ctx, b.clock, attempt) == nil {
						free <- len(got)
					}
				}()
			}
		}
	}()
	b.advance(d)
	cancel()
	synctest.Wait()
	return count
}

// Whatever SQS answers first, and whether its tasks are here already: as long as both queues have messages, a
// task of a higher priority comes first, or each in its turn.
func TestTheOrderDoesNotDependOnWhichQueueAnswersFirst(t *testing.T) {
	t.Parallel()
	for _, attempt := range []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond, 2 * time.Second} {
		for _, weights := range [][]uint16{nil, {8, 3, 1}} {
			t.Run(fmt.Sprint(attempt, weights), func(t *testing.T) {
				inUneven(t, func(b *bubble) {
					b.driver.UseWeights(func(uint32) []uint16 { return weights })
					now := b.clock.Now()
					b.mustSend(ofPriority(2, 0, 500, now)...)
					b.mustSend(ofPriority(0, 500, 500, now)...)
					b.advance(time.Second)
					count := b.taken(4, attempt, 100*attempt)
					if all := count[0] + count[2]; all < 250 {
						t.Errorf("only %d came", all)
					}
					if weights == nil && count[2] > 0 {
						t.Errorf("strict: %d low ones came while high ones waited", count[2])
					}
					if share := float64(count[2]) / float64(count[0]); weights != nil && (share < 0.8/8 || share > 1.2/8) {
						t.Errorf("%d high and %d low ones came, want 8:1", count[0], count[2])
					}
				})
			})
		}
	}
}

// A low task waits for the answer about the high ones no longer than such an answer takes.
func TestALowTaskDoesNotWaitForAnEmptyQueue(t *testing.T) {
	inUneven(t, func(b *bubble) {
		b.mustSend(ofPriority(2, 0, 1, b.clock.Now())...)
		if got := b.receive(60*time.Millisecond, 4, bothQueues...); len(got) != 1 {
			t.Errorf("%d messages within 60 ms", len(got))
		}
		b.mustSend(ofPriority(2, 1, 1, b.clock.Now())...) // the poll of high goes on
		if got := b.receive(10*time.Millisecond, 4, bothQueues...); len(got) != 1 {
			t.Errorf("%d messages within 10 ms", len(got))
		}
	})
}

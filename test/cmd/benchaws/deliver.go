package main

import (
	"context"
	"fmt"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

const (
	insertBatch = 200
	settle      = 2 * time.Second // after the last message, for what the server still has to delete
	// patience bounds the wait for messages beyond the last due time.
	patience = 2 * time.Minute
)

// deliver measures a deliver lambda: a drain, a steady load, and a drain behind stuck rows.
func (b *bench) deliver(ctx context.Context) error {
	b.note("warming up")
	if _, err := b.deliverLoad(ctx, "warm-up", b.jobs, 0); err != nil {
		return err
	}
	b.note("deliver: drain of %d jobs", b.jobs)
	drain, err := b.deliverLoad(ctx, "drain", b.jobs, 0)
	if err != nil {
		return err
	}
	b.note("deliver: steady %d jobs/s for %v", b.rate, b.duration)
	steady, err := b.deliverLoad(ctx, "steady", b.rate*int(b.duration.Seconds()), time.Second/time.Duration(b.rate))
	if err != nil {
		return err
	}
	b.note("deliver: behind ten stuck rows")
	stuck, err := b.behindStuck(ctx)
	if err != nil {
		return err
	}
	b.title("deliver", "Dynein")
	b.line("drain of %d jobs due at one instant, jobs/s\t%.0f\t462", b.jobs, drain.rate())
	b.line("  CPU seconds per 1,000 jobs\t%.3f\t", drain.cpuPerThousand())
	b.line("steady %d jobs/s, lateness p50, ms\t%.1f\t520", b.rate, ms(steady.percentile(50)))
	b.line("  p95, ms\t%.1f\t980", ms(steady.percentile(95)))
	b.line("  p99, ms\t%.1f\t", ms(steady.percentile(99)))
	b.line("  CPU seconds per 1,000 jobs\t%.3f\t3.9", steady.cpuPerThousand())
	b.line("  SQS requests per job\t%.2f\t4", steady.perJob(steady.spent.requests["sqs"]))
	b.line("  rows written per job\t%.2f\t3.0", steady.perJob(steady.spent.writes))
	b.line("  DynamoDB requests per job\t%.2f\t", steady.perJob(steady.spent.requests["dynamodb"]))
	b.line("behind ten stuck acquired rows, the latest of %d jobs, ms\t%.1f\t110,000", len(stuck.late), ms(stuck.percentile(100)))
	b.line("lost, early, more than once\t%d, %d, %d\t", drain.lost+steady.lost+stuck.lost, drain.early+steady.early+stuck.early,
		drain.twice+steady.twice+stuck.twice)
	return b.flush()
}

// deliverLoad schedules n jobs, the first due when all are in, then one every gap, and consumes their
// messages.
func (b *bench) deliverLoad(ctx context.Context, name string, n int, gap time.Duration) (*result, error) {
	lambda := "deliver-" + name
	if _, _, err := admin.New(b.client).Lambdas.Create(ctx, admin.Lambda{Name: lambda, Mode: admin.ModeDeliver, Priorities: []string{"normal"}, Shards: 1}); err != nil {
		return nil, err
	}
	first := time.Now().Add(6*time.Second + time.Duration(n)*3*time.Millisecond)
	items := make([]sdk.Item, n)
	for i := range items {
		items[i] = sdk.Item{Lambda: lambda, Payload: fmt.Appendf(nil, `{"job":%d}`, i), At: first.Add(time.Duration(i) * gap)}
	}
	if err := b.insert(ctx, items); err != nil {
		return nil, err
	}
	if time.Now().After(first) {
		return nil, fmt.Errorf("inserting %d jobs took too long", n)
	}
	before, err := b.spent(ctx)
	if err != nil {
		return nil, err
	}
	r, err := b.consume(ctx, prefix+"-"+lambda+"-normal", n, first.Add(time.Duration(n)*gap+patience))
	if err != nil {
		return nil, err
	}
	if err := sleep(ctx, settle); err != nil {
		return nil, err
	}
	after, err := b.spent(ctx)
	r.spent = after.since(before)
	r.first = first
	return r, err
}

func (b *bench) insert(ctx context.Context, items []sdk.Item) error {
	for start := 0; start < len(items); start += insertBatch {
		batch := items[start:min(start+insertBatch, len(items))]
		results, err := b.client.ScheduleMany(ctx, batch)
		if err != nil {
			return err
		}
		for i := range results {
			if results[i].Err != nil {
				return results[i].Err
			}
		}
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

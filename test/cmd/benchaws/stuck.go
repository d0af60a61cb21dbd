package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/task"
)

const (
	stuckRows = 10
	stuckJobs = 50
)

// behindStuck puts rows at a partition's head that a process acquired and never sent, and measures the jobs
// behind them. The process is one that still lives, as far as the rows tell, so nobody may take them over
// yet.
func (b *bench) behindStuck(ctx context.Context) (*result, error) {
	const lambda = "deliver-stuck"
	if _, _, err := admin.New(b.client).Lambdas.Create(ctx, admin.Lambda{Name: lambda, Mode: admin.ModeDeliver, Priorities: []string{"normal"}, Shards: 1}); err != nil {
		return nil, err
	}
	if err := b.plantStuck(ctx, lambda); err != nil {
		return nil, err
	}
	first := time.Now().Add(3 * time.Second)
	items := make([]sdk.Item, stuckJobs)
	for i := range items {
		items[i] = sdk.Item{Lambda: lambda, Payload: []byte("{}"), At: first.Add(time.Duration(i) * 10 * time.Millisecond)}
	}
	if err := b.insert(ctx, items); err != nil {
		return nil, err
	}
	r, err := b.consume(ctx, prefix+"-"+lambda+"-normal", stuckJobs, first.Add(patience))
	if err != nil {
		return nil, err
	}
	r.first = first
	return r, nil
}

func (b *bench) plantStuck(ctx context.Context, lambda string) error {
	api := dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(b.endpoints.DynamoDB), Region: "us-east-1", DisableValidateResponseChecksum: true,
		Credentials: credentials.NewStaticCredentialsProvider("x", "x", ""),
	})
	s := store.New(dynamo.New(api, dynamo.Config{Prefix: prefix}), store.Config{})
	defer func() { _ = s.Close() }()
	lambdas := catalog.New(s, clock.Real(), slog.New(slog.DiscardHandler), catalog.Limits{})
	if err := lambdas.Refresh(ctx); err != nil {
		return err
	}
	entry, err := lambdas.Lambda(lambda)
	if err != nil {
		return err
	}
	now := clock.Real().Now()
	var puts, acquires []store.Op
	for range stuckRows {
		t := task.Task{
			ID: task.NewID(now, clock.Real().Uint64(), clock.Real().Uint64()), Partition: entry.Partitions()[0],
			State: task.Scheduled, Seq: 1, Created: now, Due: task.FromMillis(now.Add(-time.Minute).Millis()),
		}
		put := store.First(t)
		acquired, _, err := put[0].Task.Apply(task.Event{Kind: task.Acquire, Worker: "another"}, now, task.Policy{})
		if err != nil {
			return err
		}
		acquired.WakeRow.Seq = acquired.Seq
		puts = append(puts, put...)
		acquires = append(acquires, store.Op{Kind: store.ReplaceWakeup, Task: acquired})
	}
	for _, ops := range [][]store.Op{puts, acquires} {
		results, err := s.Apply(ctx, ops)
		if err != nil {
			return err
		}
		for _, err := range results {
			if err != nil {
				return fmt.Errorf("plant a stuck row: %w", err)
			}
		}
	}
	return nil
}

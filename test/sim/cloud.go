package sim

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakedynamo"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/queue"
	queuesqs "github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/task"
)

// amazon is DynamoDB and SQS in memory, with their limits, lags and lies. The drivers over them are the real
// ones.
type amazon struct {
	tables *fakedynamo.DB
	queues *fakesqs.SQS
}

// prefix is that of all tables and queues.
const prefix = "k"

func (w *world) newAmazon() (*amazon, error) {
	a := &amazon{
		tables: fakedynamo.New(fakedynamo.Config{Clock: bubbleClock{clock.Real()}, Seed: w.seed, IndexLag: 2 * time.Second, Attempts: 3}),
		queues: fakesqs.New(fakesqs.Config{Clock: bubbleClock{clock.Real()}, Seed: w.seed, CountLag: 5 * time.Second, Attempts: 3}),
	}
	return a, dynamo.Setup(w.ctx, a.tables, prefix, dynamo.SetupOptions{})
}

// drivers are those of one process; now is its node, once it is there.
func (a *amazon) drivers(p *process, now func() *node.Node) (store.Driver, queue.Driver) {
	log := newLog(p)
	return dynamo.New(&tables{p, a.tables}, dynamo.Config{Prefix: prefix, Clock: p.clock, Logger: log}), queuesqs.New(&cloudQueues{p, a.queues}, queuesqs.Config{
		Codec:  queuesqs.Codec{Append: store.AppendTask, Decode: store.DecodeTask, Newer: store.ErrVersion},
		Prefix: prefix, Clock: p.clock, Log: log,
		Lambda: func(ref uint32) (task.Lambda, bool) {
			if n := now(); n != nil {
				return n.Lambda(ref)
			}
			return task.Lambda{}, false
		},
		Lambdas: func() []task.Lambda {
			if n := now(); n != nil {
				return n.Lambdas()
			}
			return nil
		},
	})
}

// of says which faults of the services stand for a fault of the plan.
var ofTables, ofQueues = map[Kind][]awsfake.Fault{ //nolint:gochecknoglobals // tables
	StoreLostRequest: {awsfake.LostRequest}, StoreLostAnswer: {awsfake.LostAnswer, awsfake.BrokenAfter},
	StorePartial: {awsfake.Partial, awsfake.PartialDone}, StoreThrottled: {awsfake.Throttled}, StoreHang: {awsfake.Stalled},
	StoreAway: {awsfake.Refused},
}, map[Kind][]awsfake.Fault{
	QueueLostSend: {awsfake.LostRequest, awsfake.Partial}, QueueKeptSend: {awsfake.LostAnswer, awsfake.PartialDone}, QueueTwice: {fakesqs.Twice},
	QueueNobody: {fakesqs.Abandoned}, QueueUndead: {fakesqs.Undead}, QueueReadFails: {fakesqs.Sampled, fakesqs.Reordered}, QueueAway: {awsfake.Refused},
}

// set makes faults of a kind strike with a probability.
func (a *amazon) set(kind Kind, share float64) {
	for _, f := range ofTables[kind] {
		a.tables.Faults.Odds(awsfake.Any, f, share/float64(len(ofTables[kind])))
	}
	for _, f := range ofQueues[kind] {
		a.queues.Faults.Odds(awsfake.Any, f, share/float64(len(ofQueues[kind])))
	}
}

// through makes a call of a service for a process: it takes time, and nothing once the process is dead.
func through[In, Out, Option any](ctx context.Context, p *process, kind Kind, in *In, options []Option,
	call func(context.Context, *In, ...Option) (*Out, error),
) (*Out, error) {
	if err := p.step(ctx, p.w.latency(kind)); err != nil {
		return nil, err
	}
	p.w.countAway(kind)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		select {
		case <-p.dead:
			cancel()
		case <-stop:
		}
	}()
	out, err := call(ctx, in, options...)
	if gone := p.step(ctx, p.w.latency(kind)); gone != nil {
		return nil, gone
	}
	return out, err
}

// tables is DynamoDB as one process sees it.
type tables struct {
	p  *process
	db *fakedynamo.DB
}

// BatchExecuteStatement implements dynamo.API, as do the other methods.
func (t *tables) BatchExecuteStatement(ctx context.Context, in *dynamodb.BatchExecuteStatementInput, options ...func(*dynamodb.Options)) (*dynamodb.BatchExecuteStatementOutput, error) {
	return through(ctx, t.p, Store, in, options, t.db.BatchExecuteStatement)
}

// BatchGetItem is a call of the service.
func (t *tables) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, options ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error) {
	return through(ctx, t.p, Store, in, options, t.db.BatchGetItem)
}

// DeleteItem is a call of the service.
func (t *tables) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, options ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	return through(ctx, t.p, Store, in, options, t.db.DeleteItem)
}

// GetItem is a call of the service.
func (t *tables) GetItem(ctx context.Context, in *dynamodb.GetItemInput, options ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	return through(ctx, t.p, Store, in, options, t.db.GetItem)
}

// PutItem is a call of the service.
func (t *tables) PutItem(ctx context.Context, in *dynamodb.PutItemInput, options ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return through(ctx, t.p, Store, in, options, t.db.PutItem)
}

// Query is a call of the service.
func (t *tables) Query(ctx context.Context, in *dynamodb.QueryInput, options ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	return through(ctx, t.p, Store, in, options, t.db.Query)
}

// Scan is a call of the service.
func (t *tables) Scan(ctx context.Context, in *dynamodb.ScanInput, options ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	return through(ctx, t.p, Store, in, options, t.db.Scan)
}

// UpdateItem is a call of the service.
func (t *tables) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, options ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return through(ctx, t.p, Store, in, options, t.db.UpdateItem)
}

// cloudQueues is SQS as one process sees it.
type cloudQueues struct {
	p   *process
	sqs *fakesqs.SQS
}

// SendMessageBatch implements sqs.API, as do the other methods.
func (t *cloudQueues) SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	return through(ctx, t.p, Queue, in, options, t.sqs.SendMessageBatch)
}

// GetQueueUrl is a call of the service.
func (t *cloudQueues) GetQueueUrl(ctx context.Context, in *sqs.GetQueueUrlInput, options ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error) { //nolint:revive // the SDK's name
	return through(ctx, t.p, Queue, in, options, t.sqs.GetQueueUrl)
}

// StartMessageMoveTask is a call of the service.
func (t *cloudQueues) StartMessageMoveTask(ctx context.Context, in *sqs.StartMessageMoveTaskInput, options ...func(*sqs.Options)) (*sqs.StartMessageMoveTaskOutput, error) {
	return through(ctx, t.p, Queue, in, options, t.sqs.StartMessageMoveTask)
}

// ListMessageMoveTasks is a call of the service.
func (t *cloudQueues) ListMessageMoveTasks(ctx context.Context, in *sqs.ListMessageMoveTasksInput, options ...func(*sqs.Options)) (*sqs.ListMessageMoveTasksOutput, error) {
	return through(ctx, t.p, Queue, in, options, t.sqs.ListMessageMoveTasks)
}

// PurgeQueue is a call of the service.
func (t *cloudQueues) PurgeQueue(ctx context.Context, in *sqs.PurgeQueueInput, options ...func(*sqs.Options)) (*sqs.PurgeQueueOutput, error) {
	return through(ctx, t.p, Queue, in, options, t.sqs.PurgeQueue)
}

// ReceiveMessage is a call of the service.
func (t *cloudQueues) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, options ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	return through(ctx, t.p, Queue, in, options, t.sqs.ReceiveMessage)
}

// DeleteMessageBatch is a call of the service.
func (t *cloudQueues) DeleteMessageBatch(ctx context.Context, in *sqs.DeleteMessageBatchInput, options ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	return through(ctx, t.p, Queue, in, options, t.sqs.DeleteMessageBatch)
}

// ChangeMessageVisibilityBatch is a call of the service.
func (t *cloudQueues) ChangeMessageVisibilityBatch(ctx context.Context, in *sqs.ChangeMessageVisibilityBatchInput, options ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	return through(ctx, t.p, Queue, in, options, t.sqs.ChangeMessageVisibilityBatch)
}

// GetQueueAttributes is a call of the service.
func (t *cloudQueues) GetQueueAttributes(ctx context.Context, in *sqs.GetQueueAttributesInput, options ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error) {
	return through(ctx, t.p, Queue, in, options, t.sqs.GetQueueAttributes)
}

// SetQueueAttributes is a call of the service.
func (t *cloudQueues) SetQueueAttributes(ctx context.Context, in *sqs.SetQueueAttributesInput, options ...func(*sqs.Options)) (*sqs.SetQueueAttributesOutput, error) {
	return through(ctx, t.p, Queue, in, options, t.sqs.SetQueueAttributes)
}

// CreateQueue is a call of the service.
func (t *cloudQueues) CreateQueue(ctx context.Context, in *sqs.CreateQueueInput, options ...func(*sqs.Options)) (*sqs.CreateQueueOutput, error) {
	return through(ctx, t.p, Queue, in, options, t.sqs.CreateQueue)
}

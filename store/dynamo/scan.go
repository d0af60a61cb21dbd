package dynamo

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// query visits all items of a query, page by page, until visit returns false.
func (d *Driver) query(ctx context.Context, in *dynamodb.QueryInput, visit func(item) bool) error {
	for {
		out, err := d.queryPage(ctx, in)
		if err != nil {
			return err
		}
		for _, one := range out.Items {
			if !visit(one) {
				return nil
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

func (d *Driver) queryPage(ctx context.Context, in *dynamodb.QueryInput) (out *dynamodb.QueryOutput, err error) {
	in.ReturnConsumedCapacity = d.asks()
	err = d.retry(ctx, *in.TableName, func() error {
		out, err = request(ctx, d, "Query", 0, in, d.api.Query)
		return err
	})
	if err == nil {
		d.consumed("Query", out.ConsumedCapacity)
	}
	return out, err
}

// rangeQuery asks for a range of one hash key; the caller adds what is its own.
func rangeQuery(table *string, hash, sort, partition, low, high string) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		TableName:              table,
		KeyConditionExpression: aws.String(hash + "=:p AND " + sort + " BETWEEN :a AND :b"),
		ExpressionAttributeValues: item{
			":p": &types.AttributeValueMemberS{Value: partition},
			":a": &types.AttributeValueMemberS{Value: low},
			":b": &types.AttributeValueMemberS{Value: high},
		},
	}
}

// pageMax bounds the rows of a page, which is no larger than 1 MB in any case.
const pageMax = 1000

// ScanWaiting implements store.Driver. A row that cannot be read is skipped.
func (d *Driver) ScanWaiting(ctx context.Context, p task.Partition, after store.WaitingKey, through task.Instant, limit int) ([]task.Task, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	low, high, ok := between(after.Due, after.ID, through)
	if !ok {
		return nil, nil
	}
	in := rangeQuery(d.tables.schedule, attrPartition, attrWaiting, partitionText(p), low, high)
	in.ConsistentRead = aws.Bool(true)
	in.Limit = aws.Int32(int32(min(limit, pageMax)))
	var found []task.Task
	err := d.query(ctx, in, func(one item) bool {
		t, err := store.DecodeTask(rowOf(one))
		if err != nil {
			d.unreadable(*d.tables.schedule, one, err)
			return true
		}
		found = append(found, t)
		return len(found) < limit
	})
	d.keepOverdue(found)
	return found, err
}

// ScanWakeups implements store.Driver. The index says where to look, the rows what is there.
func (d *Driver) ScanWakeups(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	low, high, ok := between(after.Wake, after.ID, through)
	if !ok {
		return nil, nil
	}
	in := rangeQuery(d.tables.tasks, attrPartition, attrWake, partitionText(p), low, high)
	in.IndexName = aws.String(wakeupsIndex)
	var found []task.Task
	for {
		in.Limit = aws.Int32(int32(min(limit-len(found), pageMax)))
		out, err := d.queryPage(ctx, in)
		if err != nil {
			return nil, err
		}
		rows, err := d.indexed(ctx, out.Items, attrWake, func(t *task.Task) (task.Partition, task.Instant) { return t.Partition, t.Wake }, p)
		if err != nil {
			return nil, err
		}
		found = append(found, rows...)
		if len(found) >= limit || len(out.LastEvaluatedKey) == 0 {
			return found, nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

// indexed reads the rows that entries of an index name, in the order of the index, without those that
// have moved on since.
func (d *Driver) indexed(ctx context.Context, entries []item, sort string, place func(*task.Task) (task.Partition, task.Instant), p task.Partition) ([]task.Task, error) {
	places := make(map[task.ID]task.Instant, len(entries))
	keys := make([]item, 0, len(entries))
	for _, e := range entries {
		at, id, ok := position(textOf(e, sort))
		if !ok {
			d.unreadable(*d.tables.tasks, e, fmt.Errorf("%w: index entry", store.ErrCorrupt))
			continue
		}
		places[id] = at
		keys = append(keys, taskKey(id))
	}
	found := make([]task.Task, 0, len(keys))
	err := d.getAll(ctx, d.tables.tasks, keys, func(t *task.Task) {
		if partition, at := place(t); partition == p && at == places[t.ID] {
			found = append(found, *t)
		}
	})
	slices.SortFunc(found, func(a, b task.Task) int {
		return cmp.Or(cmp.Compare(places[a.ID], places[b.ID]), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return found, err
}

package dynamo

import (
	"context"

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

// pageMax bounds the rows of a page, which is no larger than 1 MB in any case.
const pageMax = 1000

// ScanSchedule implements store.Driver. A row that cannot be read is skipped.
func (d *Driver) ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	low, high, ok := between(after.Wake, after.ID, through)
	if !ok {
		return nil, nil
	}
	gone := d.deferredRows()
	var found []task.Task
	err := d.query(ctx, &dynamodb.QueryInput{
		TableName: d.tables.schedule, ConsistentRead: aws.Bool(true), Limit: aws.Int32(int32(min(limit, pageMax))),
		KeyConditionExpression: aws.String(attrPartition + "=:p AND " + attrWake + " BETWEEN :a AND :b"),
		ExpressionAttributeValues: item{
			":p": &types.AttributeValueMemberS{Value: partitionText(p)},
			":a": &types.AttributeValueMemberS{Value: low},
			":b": &types.AttributeValueMemberS{Value: high},
		},
	}, func(one item) bool {
		t, err := store.DecodeWakeup(rowOf(one))
		switch {
		case err != nil:
			d.unreadable(*d.tables.schedule, one, err)
		case !gone.has(&t):
			found = append(found, t)
		}
		return len(found) < limit
	})
	d.keepOverdue(found)
	return found, err
}

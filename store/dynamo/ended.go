package dynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// ScanEnded implements store.Driver. It finds dead letters by their index. Other ends have none, since an
// entry would cost every task a write: they take a scan of the whole table, in pages of up to 1 MB, whatever
// the partition.
func (d *Driver) ScanEnded(ctx context.Context, p *task.Partition, s task.State, cursor []byte, limit int) (found []task.Task, next []byte, err error) {
	if err := d.enter(ctx); err != nil {
		return nil, nil, err
	}
	defer d.leave()
	start, err := decodeCursor(cursor)
	if err != nil {
		return nil, nil, err
	}
	var last item
	if s == task.Dead {
		found, last, err = d.client.deadLetters(ctx, p, start, limit)
	} else {
		found, last, err = d.client.endedTasks(ctx, p, s, start, limit)
	}
	if err != nil {
		return nil, nil, err
	}
	next, err = encodeCursor(last)
	return found, next, err
}

// deadLetters reads a page of the index of dead letters, of one partition or of all, and the rows that its
// entries name. last is the key of the last entry; nil at the end.
func (c *client) deadLetters(ctx context.Context, p *task.Partition, start item, limit int) (found []task.Task, last item, err error) {
	var entries []item
	rows := aws.Int32(int32(min(limit, pageRowsMax)))
	if p != nil {
		out, err := c.queryPage(ctx, &dynamodb.QueryInput{
			TableName: c.tables.tasks, IndexName: aws.String(deadIndex), Limit: rows, ExclusiveStartKey: start,
			KeyConditionExpression: aws.String(attrDead + "=:p"), ExpressionAttributeValues: item{":p": textValue(p.String())},
		})
		if err != nil {
			return nil, nil, err
		}
		entries, last = out.Items, out.LastEvaluatedKey
	} else {
		out, err := c.scanPage(ctx, &dynamodb.ScanInput{
			TableName: c.tables.tasks, IndexName: aws.String(deadIndex), Limit: rows, ExclusiveStartKey: start,
		})
		if err != nil {
			return nil, nil, err
		}
		entries, last = out.Items, out.LastEvaluatedKey
	}
	keys := make([]item, len(entries))
	for i, e := range entries {
		keys[i] = item{attrID: e[attrID]}
	}
	err = c.readTasks(ctx, c.tables.tasks, keys, func(t *task.Task) {
		if t.State == task.Dead { // else redriven since
			found = append(found, *t)
		}
	})
	return found, last, err
}

// endedTasks reads a page of the tasks table. last is the key of the last row; nil at the end.
func (c *client) endedTasks(ctx context.Context, p *task.Partition, s task.State, start item, limit int) (found []task.Task, last item, err error) {
	rows := pageRowsMax
	if p == nil && s == task.Unknown {
		rows = min(2*limit, pageRowsMax) // most of them match
	}
	out, err := c.scanPage(ctx, &dynamodb.ScanInput{
		TableName: c.tables.tasks, ExclusiveStartKey: start, ConsistentRead: aws.Bool(true), Limit: aws.Int32(int32(rows)),
		FilterExpression: aws.String("attribute_exists(" + attrExpire + ")"),
	})
	if err != nil {
		return nil, nil, err
	}
	for _, row := range out.Items {
		t, err := store.DecodeTask(encodedOf(row))
		switch {
		case err != nil:
			c.skipUnreadable(*c.tables.tasks, row, err)
			continue
		case !t.State.IsEnd(), s != task.Unknown && t.State != s, p != nil && t.Partition != *p:
			continue
		}
		if len(found) == limit { // the next page starts after the last one that was taken
			return found, taskKey(found[limit-1].ID), nil
		}
		found = append(found, t)
	}
	return found, out.LastEvaluatedKey, nil
}

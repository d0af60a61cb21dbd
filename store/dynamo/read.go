package dynamo

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Bounds of reads.
const (
	getRowsMax     = 100 // of a BatchGetItem, DynamoDB's limit
	getRequestsMax = 4   // of one call, at once
	pageRowsMax    = 1000
	cursorBytesMax = 4096
)

// getItem reads attributes of one row, strongly consistent. It returns nil when there is none.
func (c *client) getItem(ctx context.Context, table *string, key item, attributes string) (found item, err error) {
	err = c.retry(ctx, *table, func() error {
		out, err := request(ctx, c, "GetItem", 1, &dynamodb.GetItemInput{
			TableName: table, Key: key, ConsistentRead: aws.Bool(true), ProjectionExpression: &attributes,
		}, c.api.GetItem)
		if err != nil {
			return err
		}
		found = out.Item
		return nil
	})
	if len(found) == 0 {
		return nil, err
	}
	return found, err
}

// getItems reads rows, strongly consistent, in as many requests as it takes.
func (c *client) getItems(ctx context.Context, table *string, keys []item) ([]item, error) {
	if len(keys) <= getRowsMax {
		return c.getBatch(ctx, table, keys)
	}
	batches := slices.Collect(slices.Chunk(keys, getRowsMax))
	found := make([][]item, len(batches))
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(getRequestsMax)
	for n, batch := range batches {
		g.Go(func() (err error) {
			found[n], err = c.getBatch(inner, table, batch)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	return slices.Concat(found...), nil
}

// errUnprocessed makes retry ask again for the keys that a batch left unprocessed.
var errUnprocessed = &types.ProvisionedThroughputExceededException{Message: aws.String("keys of a batch were left unprocessed")}

// getBatch reads the rows of one batch, and asks again for those that DynamoDB leaves unprocessed.
func (c *client) getBatch(ctx context.Context, table *string, keys []item) (found []item, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	projection := c.keyAttributes(table) + "," + attrRow
	err = c.retry(ctx, *table, func() error {
		out, err := request(ctx, c, "BatchGetItem", len(keys), &dynamodb.BatchGetItemInput{
			RequestItems: map[string]types.KeysAndAttributes{*table: {
				Keys: keys, ConsistentRead: aws.Bool(true), ProjectionExpression: &projection,
			}},
		}, c.api.BatchGetItem)
		if err != nil {
			return err
		}
		found = append(found, out.Responses[*table]...)
		if keys = out.UnprocessedKeys[*table].Keys; len(keys) > 0 {
			return errUnprocessed
		}
		return nil
	})
	return found, err
}

func (c *client) keyAttributes(table *string) string {
	switch table {
	case c.tables.schedule:
		return attrPartition + "," + attrWake
	case c.tables.control:
		return attrKind + "," + attrName
	}
	return attrID
}

// query visits all rows of a query, page by page, until visit returns false.
func (c *client) query(ctx context.Context, in *dynamodb.QueryInput, visit func(item) bool) error {
	for {
		out, err := c.queryPage(ctx, in)
		if err != nil {
			return err
		}
		for _, row := range out.Items {
			if !visit(row) {
				return nil
			}
		}
		if len(out.LastEvaluatedKey) == 0 {
			return nil
		}
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
}

func (c *client) queryPage(ctx context.Context, in *dynamodb.QueryInput) (out *dynamodb.QueryOutput, err error) {
	err = c.retry(ctx, *in.TableName, func() error {
		out, err = request(ctx, c, "Query", 0, in, c.api.Query)
		return err
	})
	return out, err
}

func (c *client) scanPage(ctx context.Context, in *dynamodb.ScanInput) (out *dynamodb.ScanOutput, err error) {
	err = c.retry(ctx, *in.TableName, func() error {
		out, err = request(ctx, c, "Scan", 0, in, c.api.Scan)
		return err
	})
	return out, err
}

// encodeCursor encodes the key of the last row that was read, whose attributes are all texts.
func encodeCursor(last item) ([]byte, error) {
	if len(last) == 0 {
		return nil, nil
	}
	texts := make(map[string]string, len(last))
	for name := range last {
		texts[name] = textOf(last, name)
	}
	return json.Marshal(texts)
}

func decodeCursor(cursor []byte) (item, error) {
	if len(cursor) == 0 {
		return nil, nil
	}
	var texts map[string]string
	if len(cursor) > cursorBytesMax || json.Unmarshal(cursor, &texts) != nil || len(texts) == 0 {
		return nil, store.ErrMalformed
	}
	last := make(item, len(texts))
	for name, text := range texts {
		if text == "" {
			return nil, store.ErrMalformed
		}
		last[name] = textValue(text)
	}
	return last, nil
}

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

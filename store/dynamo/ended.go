package dynamo

import (
	"context"
	"encoding/json"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// ScanEnded implements store.Driver. Dead letters are found by their index. Other ends have none, since an
// entry would cost every task a write: they are a scan of the whole table, in pages of up to 1 MB, whatever
// partition is asked for.
func (d *Driver) ScanEnded(ctx context.Context, p *task.Partition, s task.State, cursor []byte, limit int) ([]task.Task, []byte, error) {
	if err := d.enter(ctx); err != nil {
		return nil, nil, err
	}
	defer d.leave()
	start, err := decodeCursor(cursor)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case s != task.Dead:
		return d.scanEnded(ctx, p, s, start, limit)
	case p != nil:
		return d.deadOf(ctx, *p, start, limit)
	}
	return d.deadOfAll(ctx, start, limit)
}

func (d *Driver) deadOf(ctx context.Context, p task.Partition, start item, limit int) ([]task.Task, []byte, error) {
	in := &dynamodb.QueryInput{
		TableName: d.tables.tasks, IndexName: aws.String(deadIndex), Limit: aws.Int32(int32(min(limit, pageMax))), ExclusiveStartKey: start,
		KeyConditionExpression:    aws.String(attrDead + "=:p"),
		ExpressionAttributeValues: item{":p": &types.AttributeValueMemberS{Value: partitionText(p)}},
	}
	out, err := d.queryPage(ctx, in)
	if err != nil {
		return nil, nil, err
	}
	rows, err := d.dead(ctx, out.Items)
	if err != nil {
		return nil, nil, err
	}
	next, err := encodeCursor(out.LastEvaluatedKey)
	return rows, next, err
}

func (d *Driver) deadOfAll(ctx context.Context, start item, limit int) ([]task.Task, []byte, error) {
	out, err := d.scanPage(ctx, &dynamodb.ScanInput{
		TableName: d.tables.tasks, IndexName: aws.String(deadIndex), Limit: aws.Int32(int32(min(limit, pageMax))), ExclusiveStartKey: start,
	})
	if err != nil {
		return nil, nil, err
	}
	rows, err := d.dead(ctx, out.Items)
	if err != nil {
		return nil, nil, err
	}
	next, err := encodeCursor(out.LastEvaluatedKey)
	return rows, next, err
}

// dead reads the rows that entries of the index of dead letters name.
func (d *Driver) dead(ctx context.Context, entries []item) ([]task.Task, error) {
	keys := make([]item, len(entries))
	for i, e := range entries {
		keys[i] = item{attrID: e[attrID]}
	}
	var found []task.Task
	err := d.getAll(ctx, d.tables.tasks, keys, func(t *task.Task) {
		if t.State == task.Dead { // else redriven since
			found = append(found, *t)
		}
	})
	return found, err
}

func (d *Driver) scanEnded(ctx context.Context, p *task.Partition, s task.State, start item, limit int) ([]task.Task, []byte, error) {
	read := pageMax
	if p == nil && s == task.Unknown {
		read = min(2*limit, pageMax) // most rows are what is asked for
	}
	out, err := d.scanPage(ctx, &dynamodb.ScanInput{
		TableName: d.tables.tasks, ExclusiveStartKey: start, ConsistentRead: aws.Bool(true), Limit: aws.Int32(int32(read)),
		FilterExpression: aws.String("attribute_exists(" + attrExpire + ")"),
	})
	if err != nil {
		return nil, nil, err
	}
	var found []task.Task
	for _, one := range out.Items {
		t, err := store.DecodeTask(rowOf(one))
		switch {
		case err != nil:
			d.unreadable(*d.tables.tasks, one, err)
			continue
		case !t.State.IsEnd(), s != task.Unknown && t.State != s, p != nil && t.Partition != *p:
			continue
		}
		if len(found) == limit { // the page goes on behind the last one that was taken
			next, err := encodeCursor(taskKey(found[limit-1].ID))
			return found, next, err
		}
		found = append(found, t)
	}
	next, err := encodeCursor(out.LastEvaluatedKey)
	return found, next, err
}

func (d *Driver) scanPage(ctx context.Context, in *dynamodb.ScanInput) (out *dynamodb.ScanOutput, err error) {
	in.ReturnConsumedCapacity = d.asks()
	err = d.retry(ctx, *in.TableName, func() error {
		out, err = request(ctx, d, "Scan", 0, in, d.api.Scan)
		return err
	})
	if err == nil {
		d.consumed("Scan", out.ConsumedCapacity)
	}
	return out, err
}

// Sweep implements store.Driver: DynamoDB deletes ended rows by itself, some time after they expire.
func (d *Driver) Sweep(ctx context.Context, _ task.Instant, _ int) (int, error) {
	if err := d.enter(ctx); err != nil {
		return 0, err
	}
	d.leave()
	return 0, nil
}

// cursorBytesMax bounds a cursor that comes back.
const cursorBytesMax = 4096

// A cursor is the key of the last row that was read, whose attributes are all texts.
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
		last[name] = &types.AttributeValueMemberS{Value: text}
	}
	return last, nil
}

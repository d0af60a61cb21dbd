package dynamo

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Tasks implements store.Driver.
func (d *Driver) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	return readRows(ctx, d, d.client.tables.tasks, ids, taskKey, func(t *task.Task) task.ID { return t.ID })
}

// Wakeups implements store.Driver.
func (d *Driver) Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error) {
	deleted := d.batcher.deletedRows()
	found, err := readRows(ctx, d, d.client.tables.schedule, keys, wakeKey, store.KeyOf)
	for i := range found {
		if deleted.has(&found[i]) {
			found[i] = task.Task{}
		}
	}
	return found, err
}

// readRows reads rows by their keys. A row that cannot be read is an error when it alone was asked for. Among
// others it is a task without a state, or left out if it is a wake-up row.
func readRows[K comparable](ctx context.Context, d *Driver, table *string, keys []K, itemOf func(K) item, keyOf func(*task.Task) K) ([]task.Task, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	c, found := &d.client, make([]task.Task, len(keys))
	if len(keys) == 1 {
		row, err := c.getItem(ctx, table, itemOf(keys[0]), attrRow)
		if err != nil || row == nil {
			return found, err
		}
		found[0], err = c.decode(table, encodedOf(row))
		if err != nil {
			c.skipUnreadable(*table, itemOf(keys[0]), err)
			return nil, err
		}
		return found, nil
	}
	first := make(map[K]int, len(keys)) // places in keys
	distinct := make([]item, 0, len(keys))
	for i, k := range keys {
		if _, twice := first[k]; !twice {
			first[k] = i
			distinct = append(distinct, itemOf(k))
		}
	}
	if err := c.readTasks(ctx, table, distinct, func(t *task.Task) { found[first[keyOf(t)]] = *t }); err != nil {
		return nil, err
	}
	for i, k := range keys {
		if at := first[k]; at != i {
			found[i] = found[at]
			found[i].History = append([]task.Attempt(nil), found[i].History...)
		}
	}
	return found, nil
}

// readTasks reads rows of schedule or tasks and visits each, in any order. Of a task row that cannot be read
// visit gets the id alone: a missing row could be taken for one that expired.
func (c *client) readTasks(ctx context.Context, table *string, keys []item, visit func(*task.Task)) error {
	rows, err := c.getItems(ctx, table, keys)
	if err != nil {
		return err
	}
	for _, row := range rows {
		t, err := c.decode(table, encodedOf(row))
		if err != nil {
			c.skipUnreadable(*table, row, err)
			if t.ID, err = task.ParseID(textOf(row, attrID)); err != nil { // a wake-up row, which a scan reports
				continue
			}
		}
		visit(&t)
	}
	return nil
}

// ScanSchedule implements store.Driver. It skips rows that cannot be read.
func (d *Driver) ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	low, high, ok := between(after.Wake, after.ID, through)
	if !ok {
		return nil, nil
	}
	deleted := d.batcher.deletedRows()
	var found []task.Task
	err := d.client.query(ctx, &dynamodb.QueryInput{
		TableName: d.client.tables.schedule, ConsistentRead: aws.Bool(true), Limit: aws.Int32(int32(min(limit, pageRowsMax))),
		KeyConditionExpression:    aws.String(attrPartition + "=:p AND " + attrWake + " BETWEEN :a AND :b"),
		ExpressionAttributeValues: item{":p": textValue(p.String()), ":a": textValue(low), ":b": textValue(high)},
	}, func(row item) bool {
		t, err := store.DecodeWakeup(encodedOf(row))
		switch {
		case err != nil:
			d.client.skipUnreadable(*d.client.tables.schedule, row, err)
		case !deleted.has(&t):
			found = append(found, t)
		}
		return len(found) < limit
	})
	d.overdue.extend(&d.client, found)
	return found, err
}

// Payload implements store.Driver.
func (d *Driver) Payload(ctx context.Context, id task.ID) ([]byte, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	row, err := d.client.getItem(ctx, d.client.tables.payloads, taskKey(id), attrRow)
	if err != nil {
		return nil, err
	}
	payload := encodedOf(row)
	if payload == nil {
		return nil, fmt.Errorf("payload of %s: %w", id, store.ErrNotFound)
	}
	return payload, nil
}

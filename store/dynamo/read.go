package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Bounds of reads.
const (
	getMax        = 100 // rows of a BatchGetItem, DynamoDB's limit
	getsAtOnceMax = 4   // requests of one call
	// A read may fail for another reason than a throttle so often; and less often when it takes long.
	failedReadsMax     = 8
	failedReadsSlowMax = 3
	slowAfter          = 3 * time.Second
	// unsentReadsMax is how often a read may find no connection: where nothing listens, more tries are only
	// load.
	unsentReadsMax = 3
)

type item = map[string]types.AttributeValue

// retry makes a read, or a write that may be repeated, until it comes through or there is no use in it.
func (d *Driver) retry(ctx context.Context, table string, try func() error) error {
	began, failed, unconnected := clock.Steady(d.cfg.Clock), 0, 0
	for n := uint(0); ; n++ {
		err := try()
		if err == nil {
			return nil
		}
		switch classify(err) {
		case putOff:
			if d.cfg.Observer.Throttled != nil {
				d.cfg.Observer.Throttled(table)
			}
			if waited := clock.Steady(d.cfg.Clock).Sub(began); waited > throttleMax {
				return fmt.Errorf("%w: table %s for %v: %w", store.ErrThrottled, table, waited, err)
			}
		case unknown:
			failed++
			slow := failed >= failedReadsSlowMax && clock.Steady(d.cfg.Clock).Sub(began) > slowAfter
			if slow || failed == failedReadsMax || ctx.Err() != nil {
				return d.unanswered(ctx, table, err)
			}
		case unsent:
			if unconnected++; unconnected == unsentReadsMax || ctx.Err() != nil {
				return d.unanswered(ctx, table, err)
			}
		case applied, conflicted, refused:
			return fmt.Errorf("table %s: %w", table, err)
		}
		if err := clock.Sleep(ctx, d.cfg.Clock, backoff(d.cfg.Clock, n)); err != nil {
			return err
		}
	}
}

// unanswered is the end of a read that got no answer, or only that DynamoDB failed. One that its caller gave
// up says nothing of DynamoDB.
func (d *Driver) unanswered(ctx context.Context, table string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("table %s: %w", table, err)
	}
	return d.unreachable(table, err)
}

// getItem reads attributes of one row, strongly consistent; nil when there is none.
func (d *Driver) getItem(ctx context.Context, table *string, key item, attributes string) (found item, err error) {
	err = d.retry(ctx, *table, func() error {
		out, err := request(ctx, d, "GetItem", 1, &dynamodb.GetItemInput{
			TableName: table, Key: key, ConsistentRead: aws.Bool(true), ProjectionExpression: &attributes, ReturnConsumedCapacity: d.asks(),
		}, d.api.GetItem)
		if err != nil {
			return err
		}
		d.consumed("GetItem", out.ConsumedCapacity)
		found = out.Item
		return nil
	})
	if len(found) == 0 {
		return nil, err
	}
	return found, err
}

// Tasks implements store.Driver.
func (d *Driver) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	return rows(ctx, d, d.tables.tasks, ids, taskKey, func(t *task.Task) task.ID { return t.ID })
}

// Wakeups implements store.Driver.
func (d *Driver) Wakeups(ctx context.Context, keys []store.WakeKey) ([]task.Task, error) {
	gone := d.deferredRows()
	found, err := rows(ctx, d, d.tables.schedule, keys, wakeKey, store.KeyOf)
	for i := range found {
		if gone.has(&found[i]) {
			found[i] = task.Task{}
		}
	}
	return found, err
}

func taskKey(id task.ID) item {
	return item{attrID: &types.AttributeValueMemberS{Value: id.String()}}
}

func wakeKey(k store.WakeKey) item {
	return item{
		attrPartition: &types.AttributeValueMemberS{Value: partitionText(k.Partition)},
		attrWake:      &types.AttributeValueMemberS{Value: positionText(k.Wake, k.ID)},
	}
}

// rows reads rows by their keys. One that cannot be read is an error when it alone was asked for, and else
// a task without a state, or left out if it is a wake-up row, so that it does not stand before the others.
func rows[K comparable](ctx context.Context, d *Driver, table *string, keys []K, keyMap func(K) item, keyOf func(*task.Task) K) ([]task.Task, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	found := make([]task.Task, len(keys))
	if len(keys) == 1 {
		one, err := d.getItem(ctx, table, keyMap(keys[0]), attrRow)
		if err != nil || one == nil {
			return found, err
		}
		found[0], err = d.decode(table, rowOf(one))
		if err != nil {
			d.unreadable(*table, keyMap(keys[0]), err)
			return nil, err
		}
		return found, nil
	}
	at := make(map[K]int, len(keys))
	wanted := make([]item, 0, len(keys))
	for i, k := range keys {
		if _, twice := at[k]; !twice {
			at[k] = i
			wanted = append(wanted, keyMap(k))
		}
	}
	if err := d.getAll(ctx, table, wanted, func(t *task.Task) { found[at[keyOf(t)]] = *t }); err != nil {
		return nil, err
	}
	for i, k := range keys {
		if first := at[k]; first != i {
			found[i] = found[first]
			found[i].History = append([]task.Attempt(nil), found[i].History...)
		}
	}
	return found, nil
}

// getAll reads rows of tasks, strongly consistent, and calls visit for each in any order. Of a task row that
// cannot be read visit gets the id alone: somebody may take a row that is not there for one that expired.
func (d *Driver) getAll(ctx context.Context, table *string, keys []item, visit func(*task.Task)) error {
	items, err := d.getItems(ctx, table, keys)
	if err != nil {
		return err
	}
	for _, one := range items {
		t, err := d.decode(table, rowOf(one))
		if err != nil {
			d.unreadable(*table, one, err)
			if t.ID, err = task.ParseID(textOf(one, attrID)); err != nil { // a wake-up row: it is found by a scan
				continue
			}
		}
		visit(&t)
	}
	return nil
}

// decode reads a row of schedule or tasks; only one of schedule may be bare.
func (d *Driver) decode(table *string, row []byte) (task.Task, error) {
	if table == d.tables.schedule {
		return store.DecodeWakeup(row)
	}
	return store.DecodeTask(row)
}

// getItems reads rows, strongly consistent, in as many requests as it takes.
func (d *Driver) getItems(ctx context.Context, table *string, keys []item) ([]item, error) {
	if len(keys) <= getMax {
		return d.getPart(ctx, table, keys)
	}
	parts := slices.Collect(slices.Chunk(keys, getMax))
	answers := make([][]item, len(parts))
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(getsAtOnceMax)
	for n, part := range parts {
		g.Go(func() (err error) {
			answers[n], err = d.getPart(inner, table, part)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	return slices.Concat(answers...), nil
}

// errUnprocessed makes retry go on with what a batch left over.
var errUnprocessed = &types.ProvisionedThroughputExceededException{Message: aws.String("keys of a batch were left unprocessed")}

// getPart reads the rows of one batch, and again what DynamoDB leaves over.
func (d *Driver) getPart(ctx context.Context, table *string, keys []item) (found []item, err error) {
	if len(keys) == 0 {
		return nil, nil
	}
	projection := d.projection(table)
	err = d.retry(ctx, *table, func() error {
		out, err := request(ctx, d, "BatchGetItem", len(keys), &dynamodb.BatchGetItemInput{
			ReturnConsumedCapacity: d.asks(),
			RequestItems: map[string]types.KeysAndAttributes{*table: {
				Keys: keys, ConsistentRead: aws.Bool(true), ProjectionExpression: &projection,
			}},
		}, d.api.BatchGetItem)
		if err != nil {
			return err
		}
		for i := range out.ConsumedCapacity {
			d.consumed("BatchGetItem", &out.ConsumedCapacity[i])
		}
		found = append(found, out.Responses[*table]...)
		if keys = out.UnprocessedKeys[*table].Keys; len(keys) > 0 {
			return errUnprocessed
		}
		return nil
	})
	return found, err
}

// projection is what a batch reads of a row: its key, by which one that cannot be decoded is reported, and
// the row.
func (d *Driver) projection(table *string) string {
	switch table {
	case d.tables.schedule:
		return attrPartition + "," + attrWake + "," + attrRow
	case d.tables.control:
		return attrKind + "," + attrName + "," + attrRow
	}
	return attrID + "," + attrRow
}

// Payload implements store.Driver.
func (d *Driver) Payload(ctx context.Context, id task.ID) ([]byte, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	one, err := d.getItem(ctx, d.tables.payloads, taskKey(id), attrRow)
	if err != nil {
		return nil, err
	}
	payload := rowOf(one)
	if payload == nil {
		return nil, fmt.Errorf("payload of %s: %w", id, store.ErrNotFound)
	}
	return payload, nil
}

// Controls implements store.Driver.
func (d *Driver) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	if err := checkControlKey(kind, name); err != nil {
		return nil, err
	}
	if name == "" {
		found, _, err := d.controlsOf(ctx, kind)
		return found, err
	}
	key := item{attrKind: &types.AttributeValueMemberS{Value: kind}, attrName: &types.AttributeValueMemberS{Value: name}}
	one, err := d.getItem(ctx, d.tables.control, key, attrRow)
	if err != nil || one == nil {
		return nil, err
	}
	c, err := store.DecodeControl(kind, name, rowOf(one))
	if err != nil {
		d.unreadable(*d.tables.control, key, err)
		return nil, err
	}
	return []store.Control{c}, nil
}

func (d *Driver) controlsOmitted(ctx context.Context, kind string) ([]store.Control, map[string]error, error) {
	if err := d.enter(ctx); err != nil {
		return nil, nil, err
	}
	defer d.leave()
	if err := checkControlKey(kind, ""); err != nil {
		return nil, nil, err
	}
	return d.controlsOf(ctx, kind)
}

func (d *Driver) controlsOf(ctx context.Context, kind string) (found []store.Control, omitted map[string]error, err error) {
	in := &dynamodb.QueryInput{
		TableName: d.tables.control, ConsistentRead: aws.Bool(true),
		KeyConditionExpression:    aws.String(attrKind + "=:c"),
		ExpressionAttributeValues: item{":c": &types.AttributeValueMemberS{Value: kind}},
	}
	err = d.query(ctx, in, func(one item) bool {
		name := textOf(one, attrName)
		c, err := store.DecodeControl(kind, name, rowOf(one))
		if err == nil {
			found = append(found, c)
			return true
		}
		d.unreadable(*d.tables.control, one, err)
		if omitted == nil {
			omitted = map[string]error{}
		}
		omitted[name] = err
		return true
	})
	return found, omitted, err
}

package fakedynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/task"
)

// write is one conditional write of one item, whatever call made it.
type write struct {
	table     *table
	key       item
	condition *expr
	change    func(old item) item // returns the new item; nil is no item
	// old says whether the caller wants the old item when the condition fails.
	old types.ReturnValuesOnConditionCheckFailure
}

// perform does a write. One whose condition fails costs as much as it would have.
func (db *DB) perform(now task.Instant, w *write) (*bill, error) {
	t := w.table
	if !t.writes.pass(now, t.locate(w.key).pk) {
		return nil, tooFast()
	}
	before := t.get(w.key)
	if !w.condition.holds(before) {
		b := &bill{table: t.name, base: writeUnits(itemBytes(before))}
		t.writes.pay(now, t.locate(w.key).pk, b.base)
		db.spent.Write += b.base
		return b, conditionFailed(before, w.old)
	}
	after := w.change(before)
	if after != nil {
		if err := t.checkNew(after); err != nil {
			return nil, err
		}
	}
	if !t.passIndexes(now, before, after) {
		return nil, tooFast()
	}
	b := db.payWrite(now, t, before, after, w.key)
	if before != nil || after != nil {
		t.put(now, before, after)
	}
	return b, nil
}

// PutItem is the client's method.
func (db *DB) PutItem(ctx context.Context, in *dynamodb.PutItemInput, options ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return do(ctx, db, "PutItem", options, func(now task.Instant) (*dynamodb.PutItemOutput, error) {
		if err := awsfake.Only(in, "TableName", "Item", "ConditionExpression", "ExpressionAttributeValues", "ReturnConsumedCapacity", "ReturnValuesOnConditionCheckFailure"); err != nil {
			return nil, err
		}
		w, err := db.newWrite(in.TableName, in.ExpressionAttributeValues, in.ConditionExpression, nil)
		if err != nil {
			return nil, err
		}
		m, err := normalItem(in.Item)
		if err != nil {
			return nil, err
		}
		if err := w.table.checkNew(m); err != nil {
			return nil, err
		}
		w.key, w.old = project(m, w.table.attributes()), in.ReturnValuesOnConditionCheckFailure
		w.change = func(item) item { return m }
		b, err := db.perform(now, w)
		if err != nil {
			return nil, err
		}
		return &dynamodb.PutItemOutput{ConsumedCapacity: b.shown(in.ReturnConsumedCapacity)}, nil
	})
}

// UpdateItem is the client's method. Its update expression may only set attributes to values.
func (db *DB) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, options ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return do(ctx, db, "UpdateItem", options, func(now task.Instant) (*dynamodb.UpdateItemOutput, error) {
		if err := awsfake.Only(in, "TableName", "Key", "UpdateExpression", "ConditionExpression", "ExpressionAttributeValues",
			"ReturnConsumedCapacity", "ReturnValuesOnConditionCheckFailure"); err != nil {
			return nil, err
		}
		w, err := db.newWrite(in.TableName, in.ExpressionAttributeValues, in.ConditionExpression, in.UpdateExpression)
		if err != nil {
			return nil, err
		}
		w.old = in.ReturnValuesOnConditionCheckFailure
		b, err := db.performAt(now, w, in.Key)
		if err != nil {
			return nil, err
		}
		return &dynamodb.UpdateItemOutput{ConsumedCapacity: b.shown(in.ReturnConsumedCapacity)}, nil
	})
}

// DeleteItem is the client's method.
func (db *DB) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, options ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	return do(ctx, db, "DeleteItem", options, func(now task.Instant) (*dynamodb.DeleteItemOutput, error) {
		if err := awsfake.Only(in, "TableName", "Key", "ConditionExpression", "ExpressionAttributeValues", "ReturnConsumedCapacity", "ReturnValuesOnConditionCheckFailure"); err != nil {
			return nil, err
		}
		w, err := db.newWrite(in.TableName, in.ExpressionAttributeValues, in.ConditionExpression, nil)
		if err != nil {
			return nil, err
		}
		w.old = in.ReturnValuesOnConditionCheckFailure
		w.change = func(item) item { return nil }
		b, err := db.performAt(now, w, in.Key)
		if err != nil {
			return nil, err
		}
		return &dynamodb.DeleteItemOutput{ConsumedCapacity: b.shown(in.ReturnConsumedCapacity)}, nil
	})
}

// newWrite parses the expressions of a write.
func (db *DB) newWrite(name *string, values item, condition, update *string) (*write, error) {
	t, err := db.table(name)
	if err != nil {
		return nil, err
	}
	p, err := newParser(values)
	if err != nil {
		return nil, err
	}
	w := &write{table: t}
	if w.condition, err = p.condition(condition); err != nil {
		return nil, err
	}
	if update != nil {
		set, err := p.assignments(*update)
		if err != nil {
			return nil, err
		}
		if err := w.assign(set, nil); err != nil {
			return nil, err
		}
	}
	return w, p.finish()
}

// performAt performs a write of the item with a key.
func (db *DB) performAt(now task.Instant, w *write, key item) (b *bill, err error) {
	if w.key, err = normalItem(key); err != nil {
		return nil, err
	}
	if err := w.table.checkKey(w.key); err != nil {
		return nil, err
	}
	return db.perform(now, w)
}

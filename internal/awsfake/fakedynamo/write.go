package fakedynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/task"
)

// write is one conditional write of one item, whatever call it came by.
type write struct {
	table     *table
	key       item
	condition *expr
	// change makes the new item of the old one, both nil where there is none.
	change func(old item) (item, error)
	// old is asked for when the condition fails.
	old types.ReturnValuesOnConditionCheckFailure
}

// perform does a write. before is the old item even when the condition fails, which costs as much as it would
// have.
func (db *DB) perform(now task.Instant, w *write) (before, after item, b *bill, err error) {
	t := w.table
	if !t.writes.pass(now, t.locate(w.key).pk) {
		return nil, nil, nil, tooFast()
	}
	before = t.get(w.key)
	if !w.condition.holds(before) {
		b = &bill{table: t.name, base: writeUnits(itemBytes(before))}
		t.writes.pay(now, t.locate(w.key).pk, b.base)
		db.spent.Write += b.base
		return before, nil, b, conditionFailed(before, w.old)
	}
	if after, err = w.change(before); err != nil {
		return before, nil, nil, err
	}
	if after != nil {
		if err := t.checkNew(after); err != nil {
			return before, nil, nil, err
		}
	}
	if !t.passIndexes(now, before, after) {
		return before, nil, nil, tooFast()
	}
	b = db.payWrite(now, t, before, after, w.key)
	if before != nil || after != nil {
		t.put(now, before, after)
	}
	return before, after, b, nil
}

// PutItem is the client's method.
func (db *DB) PutItem(ctx context.Context, in *dynamodb.PutItemInput, options ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return do(ctx, db, "PutItem", options, func(now task.Instant) (*dynamodb.PutItemOutput, error) {
		if err := awsfake.Only(in, "TableName", "Item", "ConditionExpression", "ExpressionAttributeNames", "ExpressionAttributeValues",
			"ReturnConsumedCapacity", "ReturnValues", "ReturnValuesOnConditionCheckFailure"); err != nil {
			return nil, err
		}
		t, err := db.table(in.TableName)
		if err != nil {
			return nil, err
		}
		w, err := t.newWrite(in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ConditionExpression, nil)
		if err != nil {
			return nil, err
		}
		m, err := normalItem(in.Item)
		if err != nil {
			return nil, err
		}
		if err := t.checkNew(m); err != nil {
			return nil, err
		}
		w.key, w.old = project(m, t.names()), in.ReturnValuesOnConditionCheckFailure
		w.change = func(item) (item, error) { return m, nil }
		before, _, b, err := db.perform(now, w)
		if err != nil {
			return nil, err
		}
		shown, err := returned(in.ReturnValues, before, nil, false)
		return &dynamodb.PutItemOutput{Attributes: shown, ConsumedCapacity: b.shown(in.ReturnConsumedCapacity)}, err
	})
}

// UpdateItem is the client's method.
func (db *DB) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, options ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return do(ctx, db, "UpdateItem", options, func(now task.Instant) (*dynamodb.UpdateItemOutput, error) {
		if err := awsfake.Only(in, "TableName", "Key", "UpdateExpression", "ConditionExpression", "ExpressionAttributeNames",
			"ExpressionAttributeValues", "ReturnConsumedCapacity", "ReturnValues", "ReturnValuesOnConditionCheckFailure"); err != nil {
			return nil, err
		}
		t, err := db.table(in.TableName)
		if err != nil {
			return nil, err
		}
		w, err := t.newWrite(in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ConditionExpression, in.UpdateExpression)
		if err != nil {
			return nil, err
		}
		if err := w.setKey(in.Key); err != nil {
			return nil, err
		}
		w.old = in.ReturnValuesOnConditionCheckFailure
		before, after, b, err := db.perform(now, w)
		if err != nil {
			return nil, err
		}
		shown, err := returned(in.ReturnValues, before, after, true)
		return &dynamodb.UpdateItemOutput{Attributes: shown, ConsumedCapacity: b.shown(in.ReturnConsumedCapacity)}, err
	})
}

// DeleteItem is the client's method.
func (db *DB) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, options ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	return do(ctx, db, "DeleteItem", options, func(now task.Instant) (*dynamodb.DeleteItemOutput, error) {
		if err := awsfake.Only(in, "TableName", "Key", "ConditionExpression", "ExpressionAttributeNames", "ExpressionAttributeValues",
			"ReturnConsumedCapacity", "ReturnValues", "ReturnValuesOnConditionCheckFailure"); err != nil {
			return nil, err
		}
		t, err := db.table(in.TableName)
		if err != nil {
			return nil, err
		}
		w, err := t.newWrite(in.ExpressionAttributeNames, in.ExpressionAttributeValues, in.ConditionExpression, nil)
		if err != nil {
			return nil, err
		}
		if err := w.setKey(in.Key); err != nil {
			return nil, err
		}
		w.old = in.ReturnValuesOnConditionCheckFailure
		w.change = func(item) (item, error) { return nil, nil } //nolint:nilnil // no item is what a delete leaves
		before, _, b, err := db.perform(now, w)
		if err != nil {
			return nil, err
		}
		shown, err := returned(in.ReturnValues, before, nil, false)
		return &dynamodb.DeleteItemOutput{Attributes: shown, ConsumedCapacity: b.shown(in.ReturnConsumedCapacity)}, err
	})
}

// newWrite parses the expressions of a write.
func (t *table) newWrite(names map[string]string, values item, condition, update *string) (*write, error) {
	s, err := newScope(names, values)
	if err != nil {
		return nil, err
	}
	w := &write{table: t}
	if w.condition, err = s.condition(condition); err != nil {
		return nil, err
	}
	actions, err := s.update(update)
	if err != nil {
		return nil, err
	}
	if err := t.checkActions(actions); err != nil {
		return nil, err
	}
	w.change = w.updating(actions)
	return w, s.finish()
}

func (t *table) checkActions(actions []action) error {
	for _, a := range actions {
		if a.path == t.hash || a.path == t.sort {
			return invalid("One or more parameter values were invalid: Cannot update attribute %s. This attribute is part of the key", a.path)
		}
	}
	return nil
}

// updating changes the old item, or a new one that has only its key.
func (w *write) updating(actions []action) func(item) (item, error) {
	return func(old item) (item, error) {
		if old == nil {
			old = w.key
		}
		return change(old, actions)
	}
}

func (w *write) setKey(key item) (err error) {
	if w.key, err = normalItem(key); err != nil {
		return err
	}
	return w.table.checkKey(w.key)
}

// returned is what a caller gets of a write that was done.
func returned(want types.ReturnValue, before, after item, isUpdate bool) (item, error) {
	switch {
	case want == "" || want == types.ReturnValueNone:
		return nil, nil
	case want == types.ReturnValueAllOld:
		return clone(before), nil
	case want == types.ReturnValueAllNew && isUpdate:
		return clone(after), nil
	case isUpdate:
		return nil, notModelled("ReturnValues %s", want)
	}
	return nil, invalid("Return values set to invalid value")
}

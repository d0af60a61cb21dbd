package dynamo

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// answer is what DynamoDB answered for one write.
type answer struct {
	result result
	row    item  // of a conflicted write: the row that it met
	shown  bool  // of a conflicted write: whether a nil row means that there is none
	err    error // of a refused, unsent or unknown write
}

// send sends writes in one request. failure is the error of the request as a whole.
func (c *client) send(batch []*write) (answers []answer, failure error) {
	if len(batch) == 1 {
		return []answer{c.sendOne(batch[0])}, nil
	}
	in := &dynamodb.BatchExecuteStatementInput{Statements: make([]types.BatchStatementRequest, len(batch))}
	for i, w := range batch {
		in.Statements[i] = types.BatchStatementRequest{
			Statement: w.shape.statement, Parameters: w.values, ReturnValuesOnConditionCheckFailure: w.wantsRow(),
		}
	}
	answers = make([]answer, len(batch))
	out, err := request(c.base, c, "BatchExecuteStatement", len(batch), in, c.api.BatchExecuteStatement)
	if err == nil && len(out.Responses) != len(batch) {
		err = fmt.Errorf("answer for %d of %d statements", len(out.Responses), len(batch))
	}
	if err != nil {
		all := answerOf(err)
		for i := range answers {
			answers[i] = all
		}
		return answers, err
	}
	for i := range answers {
		answers[i] = answerOfStatement(batch[i], out.Responses[i].Error)
	}
	return answers, nil
}

// sendOne sends a write as a PutItem or DeleteItem.
func (c *client) sendOne(w *write) answer {
	if w.shape.form == remove {
		return c.sendDelete(w)
	}
	_, err := request(c.base, c, "PutItem", 1, &dynamodb.PutItemInput{
		TableName: w.shape.table, Item: w.item(), ConditionExpression: w.shape.condition, ExpressionAttributeValues: w.conditionValues(),
		ReturnValuesOnConditionCheckFailure: w.wantsRow(),
	}, c.api.PutItem)
	if err != nil {
		return answerOf(err)
	}
	return answer{}
}

func (c *client) sendDelete(w *write) answer {
	_, err := request(c.base, c, "DeleteItem", 1, &dynamodb.DeleteItemInput{
		TableName: w.shape.table, Key: w.keyItem(), ConditionExpression: w.shape.condition, ExpressionAttributeValues: w.conditionValues(),
		ReturnValuesOnConditionCheckFailure: w.wantsRow(),
	}, c.api.DeleteItem)
	if err != nil {
		return answerOf(err)
	}
	return answer{}
}

// wantsRow returns the option of a request that asks for the row which a write conflicts with; nobody needs a payload.
func (w *write) wantsRow() types.ReturnValuesOnConditionCheckFailure {
	if w.kind == store.PutPayload || w.shape.condition == nil {
		return ""
	}
	return types.ReturnValuesOnConditionCheckFailureAllOld
}

// answerOf returns the answer that the error of a request stands for.
func answerOf(err error) answer {
	if conflict, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return answer{result: conflicted, row: conflict.Item, shown: true}
	}
	return answer{result: classify(err), err: withSentinel(err)}
}

// answerOfStatement returns the answer that the error of one statement of a batch stands for.
func answerOfStatement(w *write, e *types.BatchStatementError) answer {
	if e == nil {
		return answer{}
	}
	if e.Code == types.BatchStatementErrorCodeEnumDuplicateItem || e.Code == types.BatchStatementErrorCodeEnumConditionalCheckFailed {
		// An insertion met a row, shown or not.
		return answer{result: conflicted, row: e.Item, shown: e.Item != nil || (w.shape.form != insert && w.shape.form != raise)}
	}
	message := ""
	if e.Message != nil {
		message = *e.Message
	}
	err := &smithy.GenericAPIError{Code: string(e.Code), Message: message, Fault: smithy.FaultClient}
	return answer{result: classifyCode(err.Code, 0), err: withSentinel(err)}
}

// needsPut reports whether an insertion of a batch has to be sent again as a PutItem, which can replace a row with a lower
// seq and always shows the row that it conflicts with. A statement of a batch can do neither.
func (w *write) needsPut(a *answer) bool {
	switch {
	case a.result != conflicted, w.kind == store.PutPayload:
		return false
	case !a.shown:
		return true
	}
	return w.shape.form == raise && numberOf(a.row, attrSeq) < w.wakeRow.seq
}

// resultOf returns the result of a write as store.Driver defines it.
func (c *client) resultOf(w *write, a *answer) error {
	switch a.result {
	case applied:
		return nil
	case conflicted:
		return c.conflictError(w, a.row)
	case unknown:
		return fmt.Errorf("%w: table %s: %w", store.ErrUnknown, *w.shape.table, a.err)
	case unsent:
		return c.unreachableError(*w.shape.table, a.err)
	case refused, throttled:
	}
	return fmt.Errorf("table %s refused a write: %w", *w.shape.table, a.err)
}

// conflictError returns the error of a write that conflicts with a row, with that row if this program can read it.
func (c *client) conflictError(w *write, row item) error {
	conflict := &store.ConflictError{}
	encoded := encodedOf(row)
	if encoded == nil {
		return conflict
	}
	var err error
	switch w.shape.table {
	case c.tables.control:
		var control store.Control
		if control, err = store.DecodeControl(textOf(row, attrKind), textOf(row, attrName), encoded); err == nil {
			conflict.Control = &control
		}
	case c.tables.schedule, c.tables.tasks:
		var t task.Task
		if t, err = c.decode(w.shape.table, encoded); err == nil {
			conflict.Task = &t
		}
	}
	if err != nil {
		c.skipUnreadable(*w.shape.table, row, err)
	}
	return conflict
}

// decode decodes a row of schedule or tasks.
func (c *client) decode(table *string, encoded []byte) (task.Task, error) {
	if table == c.tables.schedule {
		return store.DecodeWakeup(encoded)
	}
	return store.DecodeTask(encoded)
}

// keepPayload makes a payload that was there already last as long as the refused one would have, and returns the result of
// the refused write.
func (c *client) keepPayload(w *write) error {
	if err := c.extendPayload(c.base, w.keyItem(), w.expiry); err != nil {
		return fmt.Errorf("%w: extend the payload that is there: %w", store.ErrUnknown, err)
	}
	return &store.ConflictError{}
}

package dynamo

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
)

// verdict is what DynamoDB did with a write.
type verdict uint8

const (
	applied    verdict = iota
	conflicted         // its condition does not hold
	putOff             // for want of capacity; nothing was written
	refused            // for good; nothing was written
	unsent             // for want of a connection; nothing was written
	unknown            // nobody can tell
)

// outcome is what became of one write.
type outcome struct {
	verdict verdict
	// item is the row that stood in the way of a conflicted write; seen is set when a nil one means that
	// there is none.
	item map[string]types.AttributeValue
	seen bool
	err  error // of refused, unsent and unknown writes
}

// send makes one request and passes its outcomes on.
func (d *Driver) send(batch []*write) {
	var outcomes []outcome
	var whole error
	if len(batch) == 1 {
		outcomes = []outcome{d.sendOne(batch[0])}
	} else {
		outcomes, whole = d.sendBatch(batch)
	}
	var open []*write
	q := &d.writes
	q.mu.Lock()
	q.requests--
	for i, w := range batch {
		d.noteLoad(w, outcomes[i].verdict)
		switch o := &outcomes[i]; {
		case isInvalid(whole): // for one of them, nobody knows which
			w.alone = true
			d.enqueue(w)
		case o.verdict == putOff:
			d.putOff(w)
		case w.mayDeleteAgain(o):
			w.tries++
			d.leaveRound(w, true)
			d.admit(w)
		case len(batch) > 1 && w.mayRaise(o): // alone it has the condition that a statement cannot have
			w.alone = true
			d.enqueue(w)
		case o.verdict == conflicted && (!o.seen || w.kind == store.PutPayload):
			open = append(open, w)
		default:
			d.settle(w, d.result(w, o))
		}
	}
	d.pump()
	q.mu.Unlock()
	d.lookUp(open)
}

// mayRaise reports whether a conflicted insertion may meet a row with a lower seq, which it is to replace.
func (w *write) mayRaise(o *outcome) bool {
	return w.shape.form == raise && o.verdict == conflicted && (!o.seen || number(o.item, attrSeq) < w.wakeRow.seq)
}

// result is the outcome in the words of store.Driver.
func (d *Driver) result(w *write, o *outcome) error {
	switch o.verdict {
	case applied:
		return nil
	case conflicted:
		return d.conflict(w, o.item)
	case unknown:
		return fmt.Errorf("%w: table %s: %w", store.ErrUnknown, *w.shape.table, o.err)
	case unsent:
		return d.unreachable(*w.shape.table, o.err)
	case refused, putOff:
	}
	return fmt.Errorf("table %s refused a write: %w", *w.shape.table, o.err)
}

// conflict shows the row that stood in the way, if this program can read it.
func (d *Driver) conflict(w *write, item map[string]types.AttributeValue) error {
	row := rowOf(item)
	if row == nil {
		return &store.ConflictError{}
	}
	switch w.kind {
	case store.PutControl, store.DeleteControl:
		c, err := store.DecodeControl(w.name.kind, w.name.name, row)
		if err == nil {
			return &store.ConflictError{Control: &c}
		}
		d.unreadable(*w.shape.table, item, err)
	case store.PutWakeup, store.ReplaceWakeup, store.DeleteWakeup, store.PutTask, store.ReplaceTask:
		t, err := d.decode(w.shape.table, row)
		if err == nil {
			return &store.ConflictError{Task: &t}
		}
		d.unreadable(*w.shape.table, item, err)
	case store.PutPayload, store.DeletePayload:
	}
	return &store.ConflictError{}
}

// lookUp reads the rows that stood in the way of writes whose answers do not show them. What was read may be
// younger than the conflict, which is as good. A payload that is there already has to last as long as the
// refused one.
func (d *Driver) lookUp(open []*write) {
	if len(open) == 0 {
		return
	}
	results := make([]error, len(open))
	kinds := map[*string][]int{} // places in open, by table
	for i, w := range open {
		kinds[w.shape.table] = append(kinds[w.shape.table], i)
	}
	for table, at := range kinds {
		if table == d.tables.payloads {
			for _, i := range at {
				results[i] = d.conflictOfPayload(open[i])
			}
			continue
		}
		d.lookUpRows(table, open, at, results)
	}
	d.writes.mu.Lock()
	defer d.writes.mu.Unlock()
	for i, w := range open {
		d.settle(w, results[i])
	}
	d.pump()
}

func (d *Driver) lookUpRows(table *string, open []*write, at []int, results []error) {
	keys := make([]item, len(at))
	of := make(map[string]int, len(at)) // by the text of the key
	for n, i := range at {
		keys[n] = open[i].keyMap()
		of[rowKeyText(keys[n], open[i].shape.key)] = i
		results[i] = &store.ConflictError{} // gone since
	}
	items, err := d.getItems(d.base, table, keys)
	for _, i := range at {
		if err != nil {
			results[i] = fmt.Errorf("%w: read the row in the way: %w", store.ErrUnknown, err)
		}
	}
	for _, one := range items {
		if i, ok := of[rowKeyText(one, open[at[0]].shape.key)]; ok && err == nil {
			results[i] = d.conflict(open[i], one)
		}
	}
}

// rowKeyText joins the attributes of a key.
func rowKeyText(one item, names []string) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = textOf(one, name)
	}
	return strings.Join(texts, "\x00")
}

func (d *Driver) conflictOfPayload(w *write) error {
	if err := d.extend(d.base, w.keyMap(), w.until); err != nil {
		return fmt.Errorf("%w: keep the payload that is there: %w", store.ErrUnknown, err)
	}
	return &store.ConflictError{}
}

// request makes one request within its time, as often as once: what to do about a failure is decided here and
// not in the client.
func request[In, Out any](ctx context.Context, d *Driver, name string, rows int, in *In,
	call func(context.Context, *In, ...func(*dynamodb.Options)) (*Out, error),
) (*Out, error) {
	ctx, cancel := context.WithTimeout(ctx, d.cfg.RequestTimeout)
	defer cancel()
	if d.cfg.Observer.Request == nil {
		return call(ctx, in, once)
	}
	began := clock.Steady(d.cfg.Clock)
	out, err := call(ctx, in, once)
	d.cfg.Observer.Request(name, rows, clock.Steady(d.cfg.Clock).Sub(began), err)
	return out, err
}

// sendOne makes a write by itself.
func (d *Driver) sendOne(w *write) outcome {
	if w.shape.form == remove {
		return d.sendDelete(w)
	}
	out, err := request(d.base, d, "PutItem", 1, &dynamodb.PutItemInput{
		TableName: w.shape.table, Item: w.item(), ConditionExpression: w.shape.condition, ExpressionAttributeValues: w.condition(),
		ReturnValuesOnConditionCheckFailure: w.returns(), ReturnConsumedCapacity: d.asks(),
	}, d.api.PutItem)
	if err != nil {
		return judge(err)
	}
	d.consumed("PutItem", out.ConsumedCapacity)
	return outcome{}
}

func (d *Driver) sendDelete(w *write) outcome {
	out, err := request(d.base, d, "DeleteItem", 1, &dynamodb.DeleteItemInput{
		TableName: w.shape.table, Key: w.keyMap(), ConditionExpression: w.shape.condition, ExpressionAttributeValues: w.condition(),
		ReturnValuesOnConditionCheckFailure: w.returns(), ReturnConsumedCapacity: d.asks(),
	}, d.api.DeleteItem)
	if err != nil {
		return judge(err)
	}
	d.consumed("DeleteItem", out.ConsumedCapacity)
	return outcome{}
}

// returns asks for the row in the way, unless that is a payload.
func (w *write) returns() types.ReturnValuesOnConditionCheckFailure {
	if w.kind == store.PutPayload || w.shape.condition == nil {
		return ""
	}
	return types.ReturnValuesOnConditionCheckFailureAllOld
}

// judge is the outcome of a write that failed by itself.
func judge(err error) outcome {
	if conflict, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return outcome{verdict: conflicted, item: conflict.Item, seen: true}
	}
	return outcome{verdict: classify(err), err: explain(err)}
}

// sendBatch makes several writes in one request; whole is how all of it failed.
func (d *Driver) sendBatch(batch []*write) (outcomes []outcome, whole error) {
	in := &dynamodb.BatchExecuteStatementInput{Statements: make([]types.BatchStatementRequest, len(batch)), ReturnConsumedCapacity: d.asks()}
	for i, w := range batch {
		in.Statements[i] = types.BatchStatementRequest{
			Statement: w.shape.statement, Parameters: w.values, ReturnValuesOnConditionCheckFailure: w.returns(),
		}
	}
	outcomes = make([]outcome, len(batch))
	out, err := request(d.base, d, "BatchExecuteStatement", len(batch), in, d.api.BatchExecuteStatement)
	if err == nil && len(out.Responses) != len(batch) {
		err = fmt.Errorf("answer for %d of %d statements", len(out.Responses), len(batch))
	}
	if err != nil {
		all := judge(err)
		for i := range outcomes {
			outcomes[i] = all
		}
		return outcomes, err
	}
	for i := range out.ConsumedCapacity {
		d.consumed("BatchExecuteStatement", &out.ConsumedCapacity[i])
	}
	for i := range outcomes {
		outcomes[i] = judgeStatement(batch[i], out.Responses[i].Error)
	}
	return outcomes, nil
}

// judgeStatement is the outcome of one statement of a batch.
func judgeStatement(w *write, e *types.BatchStatementError) outcome {
	if e == nil {
		return outcome{}
	}
	if e.Code == types.BatchStatementErrorCodeEnumDuplicateItem || e.Code == types.BatchStatementErrorCodeEnumConditionalCheckFailed {
		// The row in the way of an insertion is there, shown or not.
		return outcome{verdict: conflicted, item: e.Item, seen: e.Item != nil || (w.shape.form != insert && w.shape.form != raise)}
	}
	text := ""
	if e.Message != nil {
		text = *e.Message
	}
	err := &smithy.GenericAPIError{Code: string(e.Code), Message: text, Fault: smithy.FaultClient}
	return outcome{verdict: verdictOf(err.Code, 0), err: explain(err)}
}

// once switches the client's own tries off.
func once(o *dynamodb.Options) { o.Retryer = never }

// rowOf is the encoded row, or the payload, of an item that has one.
func rowOf(item map[string]types.AttributeValue) []byte {
	if v, ok := item[attrRow].(*types.AttributeValueMemberB); ok {
		return v.Value
	}
	return nil
}

func textOf(item map[string]types.AttributeValue, name string) string {
	if v, ok := item[name].(*types.AttributeValueMemberS); ok {
		return v.Value
	}
	return ""
}

func (d *Driver) asks() types.ReturnConsumedCapacity {
	if d.cfg.Observer.Consumed == nil {
		return ""
	}
	return types.ReturnConsumedCapacityIndexes
}

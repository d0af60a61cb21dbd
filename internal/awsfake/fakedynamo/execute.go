package fakedynamo

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/task"
)

// statementsMax is how many statements a batch takes.
const statementsMax = 25

// ExecuteStatement is the client's method. A SELECT must name the whole key.
func (db *DB) ExecuteStatement(ctx context.Context, in *dynamodb.ExecuteStatementInput, options ...func(*dynamodb.Options)) (*dynamodb.ExecuteStatementOutput, error) {
	return do(ctx, db, "ExecuteStatement", options, func(now task.Instant) (*dynamodb.ExecuteStatementOutput, error) {
		if err := awsfake.Only(in, "Statement", "Parameters", "ConsistentRead", "ReturnConsumedCapacity", "ReturnValuesOnConditionCheckFailure"); err != nil {
			return nil, err
		}
		e := execution{db: db, request: types.BatchStatementRequest{
			Statement: in.Statement, Parameters: in.Parameters, ConsistentRead: in.ConsistentRead,
			ReturnValuesOnConditionCheckFailure: in.ReturnValuesOnConditionCheckFailure,
		}}
		if err := e.parse(); err != nil {
			return nil, err
		}
		if err := e.run(now); err != nil {
			return nil, err
		}
		out := &dynamodb.ExecuteStatementOutput{ConsumedCapacity: e.bill.shown(in.ReturnConsumedCapacity)}
		if e.item != nil {
			out.Items = []map[string]types.AttributeValue{e.item}
		}
		return out, nil
	})
}

// BatchExecuteStatement is the client's method. Every statement succeeds or fails by itself.
func (db *DB) BatchExecuteStatement(ctx context.Context, in *dynamodb.BatchExecuteStatementInput, options ...func(*dynamodb.Options)) (*dynamodb.BatchExecuteStatementOutput, error) {
	const call = "BatchExecuteStatement"
	return do(ctx, db, call, options, func(now task.Instant) (*dynamodb.BatchExecuteStatementOutput, error) {
		all, err := db.parseBatch(in)
		if err != nil {
			return nil, err
		}
		out := &dynamodb.BatchExecuteStatementOutput{}
		bills := map[string]*bill{}
		for i := range all {
			e := &all[i]
			r := types.BatchStatementResponse{TableName: aws.String(e.statement.table)}
			switch {
			case db.Faults.Strikes("Statement", awsfake.Throttled):
				err = tooFast()
			case db.Faults.Strikes(call, awsfake.Partial):
				err = broken()
			default:
				if err = e.run(now); err == nil && db.Faults.Strikes(call, awsfake.PartialDone) {
					err = broken()
				}
			}
			if errors.Is(err, awsfake.ErrNotModelled) {
				return nil, err
			}
			r.Item, r.Error = e.item, e.failure(err)
			if r.Error != nil {
				r.Item = nil
			}
			out.Responses = append(out.Responses, r)
			if e.bill != nil {
				if bills[e.bill.table] == nil {
					bills[e.bill.table] = &bill{}
				}
				bills[e.bill.table].add(e.bill)
			}
		}
		for _, b := range bills {
			if c := b.shown(in.ReturnConsumedCapacity); c != nil {
				out.ConsumedCapacity = append(out.ConsumedCapacity, *c)
			}
		}
		return out, nil
	})
}

// parseBatch refuses the whole batch where the service does.
func (db *DB) parseBatch(in *dynamodb.BatchExecuteStatementInput) ([]execution, error) {
	if n := len(in.Statements); n < 1 || n > statementsMax {
		return nil, invalid("1 validation error detected: Value at 'statements' failed to satisfy constraint: Member must have length less than or equal to %d and at least 1, not %d", statementsMax, n)
	}
	all := make([]execution, len(in.Statements))
	seen := map[[3]string]bool{}
	for i, request := range in.Statements {
		all[i] = execution{db: db, request: request}
		if err := all[i].parse(); err != nil {
			return nil, err
		}
		if st := all[i].statement; st.verb != "" && (st.verb == "select") != (all[0].statement.verb == "select") {
			return nil, invalid("Mixed read and write operations in one batch are not supported.")
		}
		if at := all[i].place(); seen[at] {
			return nil, invalid("Duplicate keys in one batch: Transaction request cannot include multiple operations on one item")
		} else if at[0] != "" {
			seen[at] = true
		}
	}
	return all, nil
}

// execution is one statement at work.
type execution struct {
	db      *DB
	request types.BatchStatementRequest

	statement *statement
	table     *table // nil when there is none of that name
	write     *write // nil for a SELECT
	key       item
	rest      *expr // of a SELECT: conditions besides the key
	invalid   error // of this statement only

	item item
	bill *bill
}

// parse refuses what is not modelled; errors of this statement are left for run.
func (e *execution) parse() (err error) {
	if e.statement, e.invalid = parseStatement(aws.ToString(e.request.Statement), e.request.Parameters); e.invalid != nil {
		e.statement = &statement{}
		return e.notModelled()
	}
	st := e.statement
	if e.table, e.invalid = e.db.table(&st.table); e.invalid != nil {
		return e.notModelled()
	}
	if st.verb != "select" {
		if e.write, e.invalid = st.write(e.table, e.request.ReturnValuesOnConditionCheckFailure); e.invalid == nil {
			e.key = e.write.key
		}
		return nil
	}
	if st.index != "" {
		return notModelled("SELECT from an index")
	}
	if e.key, e.rest, e.invalid = e.table.key(st.where); e.invalid != nil {
		return notModelled("SELECT without the whole key: %v", e.invalid)
	}
	return nil
}

// notModelled is what fails the whole call.
func (e *execution) notModelled() error {
	if errors.Is(e.invalid, awsfake.ErrNotModelled) {
		return e.invalid
	}
	return nil
}

// place is where the statement works; zero when unknown.
func (e *execution) place() [3]string {
	if e.key == nil {
		return [3]string{}
	}
	r := e.table.locate(e.key)
	return [3]string{e.table.name, r.pk, r.sk}
}

func (e *execution) run(now task.Instant) error {
	if e.invalid != nil {
		return e.invalid
	}
	if e.write == nil {
		e.bill = &bill{table: e.table.name}
		m, err := e.db.read(now, e.table, e.key, aws.ToBool(e.request.ConsistentRead), e.bill)
		if m != nil && e.rest.holds(m) {
			e.item = kept(m, e.statement.keep)
		}
		return err
	}
	before, after, b, err := e.db.perform(now, e.write)
	e.bill = b
	if failed := (*types.ConditionalCheckFailedException)(nil); errors.As(err, &failed) && e.statement.verb == "insert" {
		return duplicateItem()
	}
	switch e.statement.returning {
	case "all old":
		e.item = clone(before)
	case "all new":
		e.item = clone(after)
	}
	return err
}

// failure is an error in the form that a batch has for it.
func (e *execution) failure(err error) *types.BatchStatementError {
	if err == nil {
		return nil
	}
	out := &types.BatchStatementError{Code: types.BatchStatementErrorCodeEnumInternalServerError, Message: aws.String(err.Error())}
	if api := smithy.APIError(nil); errors.As(err, &api) {
		out.Message = aws.String(api.ErrorMessage())
		code := strings.TrimSuffix(strings.TrimSuffix(api.ErrorCode(), "Exception"), "Error")
		switch code {
		case "Validation", "Throttling", "InternalServer":
			code += "Error"
		}
		out.Code = types.BatchStatementErrorCodeEnum(code)
	}
	if failed := (*types.ConditionalCheckFailedException)(nil); errors.As(err, &failed) {
		out.Item = failed.Item
	}
	return out
}

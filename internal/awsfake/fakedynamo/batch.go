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

// statementsMax is DynamoDB's limit for a batch.
const statementsMax = 25

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
			out.Responses = append(out.Responses, types.BatchStatementResponse{TableName: aws.String(e.statement.table), Error: statementError(err)})
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

// parseBatch refuses the whole batch where DynamoDB does.
func (db *DB) parseBatch(in *dynamodb.BatchExecuteStatementInput) ([]execution, error) {
	if n := len(in.Statements); n < 1 || n > statementsMax {
		return nil, invalid("1 validation error detected: Value at 'statements' failed to satisfy constraint: Member must have length less than or equal to %d and at least 1, not %d", statementsMax, n)
	}
	all := make([]execution, len(in.Statements))
	seen := map[[3]string]bool{}
	for i, request := range in.Statements {
		e := &all[i]
		*e = execution{db: db}
		e.parse(request)
		if errors.Is(e.invalid, awsfake.ErrNotModelled) {
			return nil, e.invalid
		}
		if e.write == nil {
			continue
		}
		at := e.write.table.locate(e.write.key)
		place := [3]string{e.write.table.name, at.pk, at.sk}
		if seen[place] {
			return nil, invalid("Duplicate keys in one batch: Transaction request cannot include multiple operations on one item")
		}
		seen[place] = true
	}
	return all, nil
}

// execution executes one statement of a batch.
type execution struct {
	db        *DB
	statement *statement
	write     *write // nil when the statement is invalid
	invalid   error
	bill      *bill
}

func (e *execution) parse(request types.BatchStatementRequest) {
	if e.statement, e.invalid = parseStatement(aws.ToString(request.Statement), request.Parameters); e.invalid != nil {
		return
	}
	var t *table
	if t, e.invalid = e.db.table(&e.statement.table); e.invalid == nil {
		e.write, e.invalid = e.statement.write(t, request.ReturnValuesOnConditionCheckFailure)
	}
}

func (e *execution) run(now task.Instant) (err error) {
	if e.invalid != nil {
		return e.invalid
	}
	e.bill, err = e.db.perform(now, e.write)
	if _, failed := errors.AsType[*types.ConditionalCheckFailedException](err); failed && e.statement.verb == "insert" {
		return &types.DuplicateItemException{Message: aws.String("Duplicate primary key exists in table")}
	}
	return err
}

// statementError returns an error in the form that a batch has for it.
func statementError(err error) *types.BatchStatementError {
	if err == nil {
		return nil
	}
	out := &types.BatchStatementError{Code: types.BatchStatementErrorCodeEnumInternalServerError, Message: aws.String(err.Error())}
	if api, is := errors.AsType[smithy.APIError](err); is {
		out.Message = aws.String(api.ErrorMessage())
		code := strings.TrimSuffix(strings.TrimSuffix(api.ErrorCode(), "Exception"), "Error")
		switch code {
		case "Validation", "Throttling", "InternalServer":
			code += "Error"
		}
		out.Code = types.BatchStatementErrorCodeEnum(code)
	}
	if failed, is := errors.AsType[*types.ConditionalCheckFailedException](err); is {
		out.Item = failed.Item
	}
	return out
}

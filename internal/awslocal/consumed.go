package awslocal

import (
	"context"
	"reflect"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
)

// Consumption is the capacity that one request consumed of a table of DynamoDB, or of one of its indexes.
type Consumption struct {
	Request string // DynamoDB's name for it
	Table   string
	Index   string // empty for the table itself
	Read    float64
	Write   float64
}

// Metered returns a client of DynamoDB that calls each with what its requests consumed.
func Metered(config aws.Config, each func(Consumption)) *dynamodb.Client {
	return dynamodb.NewFromConfig(config, func(o *dynamodb.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("metered", metered(each)), middleware.After)
		})
	})
}

type initialize = func(context.Context, middleware.InitializeInput, middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error)

func metered(each func(Consumption)) initialize {
	return func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
		wants := reflect.ValueOf(in.Parameters).Elem().FieldByName("ReturnConsumedCapacity")
		if !wants.IsValid() { // it is no request for rows
			return next.HandleInitialize(ctx, in)
		}
		wants.Set(reflect.ValueOf(types.ReturnConsumedCapacityIndexes))
		out, metadata, err := next.HandleInitialize(ctx, in)
		if err != nil {
			return out, metadata, err
		}
		request := awsmiddleware.GetOperationName(ctx)
		switch of := reflect.ValueOf(out.Result).Elem().FieldByName("ConsumedCapacity").Interface().(type) {
		case *types.ConsumedCapacity:
			if of != nil {
				tell(each, request, of)
			}
		case []types.ConsumedCapacity:
			for i := range of {
				tell(each, request, &of[i])
			}
		}
		return out, metadata, nil
	}
}

func tell(each func(Consumption), request string, of *types.ConsumedCapacity) {
	one := func(index string, capacity *types.Capacity) {
		if capacity != nil {
			read, write := units(capacity, request)
			each(Consumption{Request: request, Table: aws.ToString(of.TableName), Index: index, Read: read, Write: write})
		}
	}
	one("", of.Table)
	for name, capacity := range of.GlobalSecondaryIndexes {
		one(name, &capacity)
	}
}

// units divides capacity into read and write units. DynamoDB Local gives only their sum, which is all of one
// kind.
func units(c *types.Capacity, request string) (read, write float64) {
	if c.ReadCapacityUnits != nil || c.WriteCapacityUnits != nil {
		return aws.ToFloat64(c.ReadCapacityUnits), aws.ToFloat64(c.WriteCapacityUnits)
	}
	switch request {
	case "PutItem", "UpdateItem", "DeleteItem", "BatchExecuteStatement":
		return 0, aws.ToFloat64(c.CapacityUnits)
	}
	return aws.ToFloat64(c.CapacityUnits), 0
}

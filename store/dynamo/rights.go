package dynamo

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// never is a condition that no row fulfils. DynamoDB checks the right to write before it checks a condition.
const never = "attribute_exists(#h) AND attribute_not_exists(#h)"

// CheckRights tries what a server does with the tables of a prefix, and changes nothing: each write is of a row that
// does not exist, on a condition that no row fulfils where there is one. It returns an error for each request that
// fails otherwise, such as one that IAM denies. IAM has actions of their own for the statements of PartiQL, in which
// the driver writes batches; of these it tries a DELETE.
func CheckRights(ctx context.Context, api API, prefix string) (refused []error) {
	for _, table := range Tables(prefix) {
		name, hash := aws.String(table.Name), table.Key[0].Attribute
		key, where, values := item{}, []string{}, []types.AttributeValue{}
		for _, part := range table.Key {
			value := anyValue(part.Type)
			key[part.Attribute] = value
			where, values = append(where, strconv.Quote(part.Attribute)+"=?"), append(values, value)
		}
		names, condition := map[string]string{"#h": hash}, aws.String(never)
		_, getErr := api.GetItem(ctx, &dynamodb.GetItemInput{TableName: name, Key: key})
		_, queryErr := api.Query(ctx, &dynamodb.QueryInput{
			TableName: name, KeyConditionExpression: aws.String("#h = :h"), ExpressionAttributeNames: names,
			ExpressionAttributeValues: item{":h": key[hash]}, Limit: aws.Int32(1),
		})
		_, putErr := api.PutItem(ctx, &dynamodb.PutItemInput{TableName: name, Item: key, ConditionExpression: condition, ExpressionAttributeNames: names})
		_, deleteErr := api.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: name, Key: key, ConditionExpression: condition, ExpressionAttributeNames: names})
		statement := fmt.Sprintf("DELETE FROM %q WHERE %s", table.Name, strings.Join(where, " AND "))
		out, batchErr := api.BatchExecuteStatement(ctx, &dynamodb.BatchExecuteStatementInput{
			Statements: []types.BatchStatementRequest{{Statement: &statement, Parameters: values}},
		})
		if batchErr == nil && len(out.Responses) == 1 && out.Responses[0].Error != nil {
			batchErr = fmt.Errorf("PartiQLDelete: %s: %s", out.Responses[0].Error.Code, aws.ToString(out.Responses[0].Error.Message))
		}
		for _, err := range []error{getErr, queryErr, putErr, deleteErr, batchErr} {
			if failed := (*types.ConditionalCheckFailedException)(nil); err != nil && !errors.As(err, &failed) {
				refused = append(refused, fmt.Errorf("table %s: %w", table.Name, err))
			}
		}
	}
	return refused
}

// anyValue returns a value of a type of DynamoDB that is in no key.
func anyValue(kind string) types.AttributeValue {
	switch kind {
	case "N":
		return &types.AttributeValueMemberN{Value: "-1"}
	case "B":
		return &types.AttributeValueMemberB{Value: []byte("?")}
	}
	return &types.AttributeValueMemberS{Value: "?"}
}

package dynamo

import (
	"context"
	"errors"
	"net"
	"net/http"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

func answered(status int, err error) error {
	return &smithy.OperationError{ServiceID: "DynamoDB", OperationName: "PutItem", Err: &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}}, Err: err,
	}}
}

func coded(code string) error { return &smithy.GenericAPIError{Code: code} }

func TestWhatFailuresMean(t *testing.T) {
	sent := func(err error) error {
		return &smithy.OperationError{Err: &smithyhttp.RequestSendError{Err: err}}
	}
	for _, c := range []struct {
		err  error
		want result
	}{
		{answered(400, &types.ProvisionedThroughputExceededException{}), throttled},
		{answered(400, &types.ThrottlingException{}), throttled},
		{answered(400, &types.RequestLimitExceeded{}), throttled},
		{answered(400, coded("ThrottlingException")), throttled},
		{answered(400, &types.TransactionConflictException{}), throttled},
		{answered(500, &types.InternalServerError{}), unknown},
		{&types.InternalServerError{}, unknown},
		{answered(503, coded("ServiceUnavailableException")), unknown},
		{answered(502, coded("SomethingNew")), unknown},
		{answered(400, coded("SomethingNew")), refused},
		{answered(400, coded("ValidationException")), refused},
		{answered(400, coded("AccessDeniedException")), refused},
		{answered(400, coded("UnrecognizedClientException")), refused},
		{answered(400, &types.ResourceNotFoundException{}), refused},
		{sent(syscall.ECONNRESET), unknown},
		{sent(&net.OpError{Op: "read", Err: syscall.ECONNRESET}), unknown},
		{sent(&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}), unsent},
		{sent(&net.DNSError{Err: "no such host"}), unsent},
		{context.DeadlineExceeded, unknown},
		{&aws.RequestCanceledError{Err: context.Canceled}, unknown},
		{&smithy.OperationError{Err: &smithy.SerializationError{Err: errors.New("x")}}, refused},
		{&smithy.OperationError{Err: &smithy.DeserializationError{Err: errors.New("x")}}, unknown},
		{errors.New("anything"), unknown},
	} {
		if got := classify(c.err); got != c.want {
			t.Errorf("%v: got %d, want %d", c.err, got, c.want)
		}
	}
}

// TestNothingIsSentWithoutCredentials uses the real client, whose errors before it sends have no type.
func TestNothingIsSentWithoutCredentials(t *testing.T) {
	client := dynamodb.New(dynamodb.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://127.0.0.1:1"), Retryer: aws.NopRetryer{},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, errors.New("none")
		}),
	})
	_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("t"), Item: item{}})
	if err == nil || classify(err) != refused {
		t.Errorf("%v, want one that says that nothing was sent", err)
	}
}

func TestStatementsOfABatchFailApart(t *testing.T) {
	names := newTables("P")
	shapes := newShapes(&names)
	some := item{attrRow: &types.AttributeValueMemberB{}}
	for _, c := range []struct {
		shape *shape
		err   *types.BatchStatementError
		want  result
		shown bool
	}{
		{&shapes.putWakeup, nil, applied, false},
		{&shapes.putWakeup, &types.BatchStatementError{Code: types.BatchStatementErrorCodeEnumDuplicateItem}, conflicted, false},
		{&shapes.putWakeup, &types.BatchStatementError{Code: types.BatchStatementErrorCodeEnumDuplicateItem, Item: some}, conflicted, true},
		{&shapes.replaceWakeup, &types.BatchStatementError{Code: types.BatchStatementErrorCodeEnumConditionalCheckFailed}, conflicted, true},
		{&shapes.putWakeup, &types.BatchStatementError{Code: types.BatchStatementErrorCodeEnumThrottlingError}, throttled, false},
		{&shapes.putWakeup, &types.BatchStatementError{Code: types.BatchStatementErrorCodeEnumProvisionedThroughputExceeded}, throttled, false},
		{&shapes.putWakeup, &types.BatchStatementError{Code: types.BatchStatementErrorCodeEnumRequestLimitExceeded}, throttled, false},
		{&shapes.putWakeup, &types.BatchStatementError{Code: types.BatchStatementErrorCodeEnumTransactionConflict}, throttled, false},
		{&shapes.putWakeup, &types.BatchStatementError{Code: types.BatchStatementErrorCodeEnumInternalServerError}, unknown, false},
		{&shapes.putWakeup, &types.BatchStatementError{Code: types.BatchStatementErrorCodeEnumAccessDenied}, refused, false},
		{&shapes.putWakeup, &types.BatchStatementError{Code: types.BatchStatementErrorCodeEnumResourceNotFound}, refused, false},
		{&shapes.putWakeup, &types.BatchStatementError{Code: types.BatchStatementErrorCodeEnumValidationError}, refused, false},
	} {
		got := answerOfStatement(&write{shape: c.shape}, c.err)
		if got.result != c.want || got.shown != c.shown {
			t.Errorf("%+v: got %+v", c.err, got)
		}
	}
}

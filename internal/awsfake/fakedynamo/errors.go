package fakedynamo

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
)

func invalid(format string, args ...any) error {
	return awsfake.APIError("ValidationException", fmt.Sprintf(format, args...), false)
}

func notModelled(format string, args ...any) error { return awsfake.NotModelled(format, args...) }

func tooFast() error {
	return &types.ProvisionedThroughputExceededException{Message: aws.String(
		"The level of configured provisioned throughput for the table was exceeded. Consider increasing your provisioning level with the UpdateTable API.")}
}

func broken() error {
	return &types.InternalServerError{Message: aws.String("The request processing has failed because of an unknown error, exception or failure.")}
}

func denied(call string) error {
	return awsfake.APIError("AccessDeniedException", "User: arn:aws:iam::000000000000:user/fake is not authorized to perform: dynamodb:"+call+
		" because no identity-based policy allows the action", false)
}

func noTable() error {
	return &types.ResourceNotFoundException{Message: aws.String("Requested resource not found")}
}

// conditionFailed carries the old item when the caller asked for it.
func conditionFailed(old item, want types.ReturnValuesOnConditionCheckFailure) error {
	e := &types.ConditionalCheckFailedException{Message: aws.String("The conditional request failed")}
	if want == types.ReturnValuesOnConditionCheckFailureAllOld {
		e.Item = clone(old)
	}
	return e
}

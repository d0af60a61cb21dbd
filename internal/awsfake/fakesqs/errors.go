package fakesqs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/kinesin-io/kinesin/internal/awsfake"
)

func invalid(code, format string, args ...any) error {
	return awsfake.APIError(code, fmt.Sprintf(format, args...), false)
}

func invalidValue(format string, args ...any) error {
	return invalid("InvalidParameterValue", format, args...)
}

func tooFast() error {
	return &types.RequestThrottled{Message: aws.String("Rate exceeded")}
}

func broken() error {
	return awsfake.APIError("InternalFailure", "We encountered an internal error. Please try again.", true)
}

func denied(call string) error {
	return invalid("AccessDenied", "User: arn:aws:iam::000000000000:user/fake is not authorized to perform: sqs:%s because no identity-based policy allows the action", strings.ToLower(call))
}

func noQueue() error {
	return &types.QueueDoesNotExist{Message: aws.String("The specified queue does not exist.")}
}

// failedEntry returns an error in the form that a batch has for it.
func failedEntry(id *string, err error) types.BatchResultErrorEntry {
	out := types.BatchResultErrorEntry{Id: id, Code: aws.String("InternalError"), Message: aws.String(err.Error())}
	if api := smithy.APIError(nil); errors.As(err, &api) {
		out.Code, out.Message = aws.String(api.ErrorCode()), aws.String(api.ErrorMessage())
		out.SenderFault = api.ErrorFault() == smithy.FaultClient
	}
	return out
}

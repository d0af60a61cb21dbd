// Package awserr says what the error codes of AWS services mean, for the drivers that call them.
package awserr

import (
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
)

// throttleCodes are the codes of throttled requests, without the ending "Exception": those that the SDK
// knows, those of the keys of an encrypted queue, and that of one statement in a batch of DynamoDB.
var throttleCodes = func() map[string]bool {
	codes := map[string]bool{"KmsThrottled": true, "KMS.Throttling": true, "ThrottlingError": true}
	for code := range retry.DefaultThrottleErrorCodes {
		codes[withoutEnding(code)] = true
	}
	return codes
}()

func withoutEnding(code string) string { return strings.TrimSuffix(code, "Exception") }

// IsThrottleCode reports whether a service answers with this code, with or without the ending "Exception",
// when it is asked too often.
func IsThrottleCode(code string) bool { return throttleCodes[withoutEnding(code)] }

// IsThrottled reports whether a service refused a request because it is asked too often.
func IsThrottled(err error) bool {
	refusal, found := errors.AsType[smithy.APIError](err)
	return found && IsThrottleCode(refusal.ErrorCode())
}

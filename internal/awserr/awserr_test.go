package awserr_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/aws/smithy-go"

	"github.com/kinesin-io/kinesin/internal/awserr"
)

func TestThrottled(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]bool{
		"ThrottlingException": true, "Throttling": true, "ProvisionedThroughputExceededException": true, "ThrottlingError": true,
		"RequestLimitExceeded": true, "KMS.ThrottlingException": true, "KmsThrottled": true, "AccessDeniedException": false, "": false,
	} {
		err := fmt.Errorf("put: %w", &smithy.GenericAPIError{Code: code})
		if awserr.IsThrottleCode(code) != want || awserr.IsThrottled(err) != want {
			t.Errorf("%q: code %v, error %v, want %v", code, awserr.IsThrottleCode(code), awserr.IsThrottled(err), want)
		}
	}
	if awserr.IsThrottled(errors.New("Throttling")) || awserr.IsThrottled(nil) {
		t.Error("an error without a code is taken for throttling")
	}
}

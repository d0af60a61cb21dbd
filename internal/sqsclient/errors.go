package sqsclient

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"
)

// ErrMissing says that a queue does not exist.
var ErrMissing = errors.New("is not there")

// EntryError is SQS's refusal of one entry of a batch.
type EntryError struct {
	Code        string
	Text        string
	SenderFault bool // to send it again is of no use
}

func (e *EntryError) Error() string { return fmt.Sprintf("SQS refused it: %s: %s", e.Code, e.Text) }

// errNoAnswer says that SQS's answer says nothing of an entry.
var errNoAnswer = errors.New("no word of this entry in SQS's answer")

// errInDoubt says that an earlier try got no answer.
var errInDoubt = errors.New("an earlier try may have been carried out")

// kmsThrottled are the codes of throttled requests that the SDK's own list lacks: of queues with a key of the
// user's own.
var kmsThrottled = []string{"KmsThrottled", "KMS.ThrottlingException"}

// gone are the codes of received messages that are deleted, or visible again: nothing is left to do for them
// here.
var gone = []string{"ReceiptHandleIsInvalid", "MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight"}

// IsMissing reports whether an error says that there is no such queue.
func IsMissing(err error) bool {
	if _, found := errors.AsType[*types.QueueDoesNotExist](err); found || errors.Is(err, ErrMissing) {
		return true
	}
	refusal, found := errors.AsType[smithy.APIError](err)
	return found && refusal.ErrorCode() == "AWS.SimpleQueueService.NonExistentQueue"
}

// IsThrottled reports whether SQS, or the service of its keys, is too busy.
func IsThrottled(err error) bool {
	refusal, found := errors.AsType[smithy.APIError](err)
	if !found {
		return false
	}
	_, listed := retry.DefaultThrottleErrorCodes[refusal.ErrorCode()]
	return listed || slices.Contains(kmsThrottled, refusal.ErrorCode())
}

// IsUnknown reports whether what failed may have been carried out: nothing came back, or not the service's
// considered answer.
func IsUnknown(err error) bool {
	if errors.Is(err, errInDoubt) {
		return true
	}
	if _, found := errors.AsType[*EntryError](err); err == nil || found || IsMissing(err) {
		return false
	}
	refusal, found := errors.AsType[smithy.APIError](err)
	return !found || refusal.ErrorFault() == smithy.FaultServer
}

// IsPassing reports whether trying again may help soon. What its caller gave up says nothing of SQS.
func IsPassing(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if entry, found := errors.AsType[*EntryError](err); found {
		return !entry.SenderFault
	}
	return IsUnknown(err) || IsThrottled(err)
}

// isRefusal reports whether SQS refused one entry for the moment.
func isRefusal(err error) bool {
	entry, found := errors.AsType[*EntryError](err)
	return found && !entry.SenderFault
}

// isSilence reports whether a request got no answer at all.
func isSilence(err error) bool {
	_, answered := errors.AsType[smithy.APIError](err)
	return err != nil && !answered && !IsMissing(err)
}

// entryError is what a batch's answer says of an entry; nil when nothing is left to do.
func entryError(e *types.BatchResultErrorEntry) error {
	if slices.Contains(gone, aws.ToString(e.Code)) {
		return nil
	}
	return &EntryError{Code: aws.ToString(e.Code), Text: aws.ToString(e.Message), SenderFault: e.SenderFault}
}

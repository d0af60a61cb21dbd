package sqsclient

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/kinesin-io/kinesin/internal/awserr"
)

// ErrMissing says that a queue does not exist.
var ErrMissing = errors.New("does not exist")

// EntryError is SQS's refusal of one entry of a batch.
type EntryError struct {
	Code        string
	Text        string
	SenderFault bool // sending it again cannot help
}

// Error returns SQS's code and text.
func (e *EntryError) Error() string { return fmt.Sprintf("SQS refused it: %s: %s", e.Code, e.Text) }

// errNoAnswer says that SQS's answer to a batch leaves out an entry.
var errNoAnswer = errors.New("SQS's answer does not mention this entry")

// errEarlierTry says that an earlier try has an unknown outcome.
var errEarlierTry = errors.New("an earlier try may have been carried out")

// settledCodes are the codes of received messages that were deleted or are visible again: there is nothing
// left to delete or to hide.
var settledCodes = []string{"ReceiptHandleIsInvalid", "MessageNotInflight", "AWS.SimpleQueueService.MessageNotInflight"}

// IsMissing reports whether an error says that the queue does not exist.
func IsMissing(err error) bool {
	if _, found := errors.AsType[*types.QueueDoesNotExist](err); found || errors.Is(err, ErrMissing) {
		return true
	}
	refusal, found := errors.AsType[smithy.APIError](err)
	return found && refusal.ErrorCode() == "AWS.SimpleQueueService.NonExistentQueue"
}

// IsDenied reports whether the permissions of this process do not allow a request.
func IsDenied(err error) bool { return slices.Contains(deniedCodes, codeOf(err)) }

// IsUnsupported reports whether the service does not have what a request asks for, as emulators may.
func IsUnsupported(err error) bool { return slices.Contains(unsupportedCodes, codeOf(err)) }

var (
	deniedCodes      = []string{"AccessDenied", "AccessDeniedException", "KMS.AccessDeniedException", "KmsAccessDenied"}
	unsupportedCodes = []string{"UnsupportedOperation", "AWS.SimpleQueueService.UnsupportedOperation", "InvalidAction", "UnknownOperationException"}
)

func codeOf(err error) string {
	if entry, found := errors.AsType[*EntryError](err); found {
		return entry.Code
	}
	if refusal, found := errors.AsType[smithy.APIError](err); found {
		return refusal.ErrorCode()
	}
	return ""
}

// IsUnknown reports whether a failed request may have been carried out: nothing answered, or the answer says
// that the service failed.
func IsUnknown(err error) bool {
	if errors.Is(err, errEarlierTry) {
		return true
	}
	if _, found := errors.AsType[*EntryError](err); err == nil || found || IsMissing(err) {
		return false
	}
	refusal, found := errors.AsType[smithy.APIError](err)
	return !found || refusal.ErrorFault() == smithy.FaultServer
}

// IsTemporary reports whether trying again may help soon. A request that its caller cancelled says nothing
// about SQS.
func IsTemporary(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) {
		return false
	}
	if entry, found := errors.AsType[*EntryError](err); found {
		return !entry.SenderFault
	}
	return IsUnknown(err) || awserr.IsThrottled(err)
}

// isTemporaryRefusal reports whether SQS refused one entry for now, and certainly did not carry it out.
func isTemporaryRefusal(err error) bool {
	entry, found := errors.AsType[*EntryError](err)
	return found && !entry.SenderFault
}

// isUnanswered reports whether a request got no answer at all.
func isUnanswered(err error) bool {
	_, answered := errors.AsType[smithy.APIError](err)
	return err != nil && !answered && !IsMissing(err)
}

// entryError returns the error of a refused entry; nil when there is nothing left to do.
func entryError(e *types.BatchResultErrorEntry) error {
	if slices.Contains(settledCodes, aws.ToString(e.Code)) {
		return nil
	}
	return &EntryError{Code: aws.ToString(e.Code), Text: aws.ToString(e.Message), SenderFault: e.SenderFault}
}

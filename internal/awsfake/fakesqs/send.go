package fakesqs

import (
	"context"
	"crypto/md5" //nolint:gosec // what the service answers with
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/task"
)

// SendMessage is the client's method.
func (s *SQS) SendMessage(ctx context.Context, in *sqs.SendMessageInput, options ...func(*sqs.Options)) (*sqs.SendMessageOutput, error) {
	return do(ctx, s, "SendMessage", options, func(now task.Instant) (*sqs.SendMessageOutput, error) {
		if err := awsfake.Only(in, "QueueUrl", "MessageBody", "DelaySeconds", "MessageAttributes"); err != nil {
			return nil, err
		}
		q, err := s.queue(in.QueueUrl, now)
		if err != nil {
			return nil, err
		}
		m, err := q.send(now, &types.SendMessageBatchRequestEntry{
			MessageBody: in.MessageBody, DelaySeconds: in.DelaySeconds, MessageAttributes: in.MessageAttributes,
		})
		if err != nil {
			return nil, err
		}
		return &sqs.SendMessageOutput{MessageId: aws.String(m.id), MD5OfMessageBody: m.md5()}, checksum(m, in.MessageBody)
	})
}

// SendMessageBatch is the client's method.
func (s *SQS) SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	const call = "SendMessageBatch"
	return do(ctx, s, call, options, func(now task.Instant) (*sqs.SendMessageBatchOutput, error) {
		q, err := s.queue(in.QueueUrl, now)
		if err != nil {
			return nil, err
		}
		ids := idsOf(in.Entries, func(e *types.SendMessageBatchRequestEntry) *string { return e.Id })
		if err := checkEntries(ids); err != nil {
			return nil, err
		}
		total := 0
		for i := range in.Entries {
			if err := awsfake.Only(&in.Entries[i], "Id", "MessageBody", "DelaySeconds", "MessageAttributes", "MessageGroupId", "MessageDeduplicationId"); err != nil {
				return nil, err
			}
			total += messageBytes(aws.ToString(in.Entries[i].MessageBody), in.Entries[i].MessageAttributes)
		}
		if total > s.cfg.MessageBytesMax {
			return nil, &types.BatchRequestTooLong{Message: aws.String("Batch requests cannot be longer than " + strconv.Itoa(s.cfg.MessageBytesMax) +
				" bytes. You have sent " + strconv.Itoa(total) + " bytes.")}
		}
		out := &sqs.SendMessageBatchOutput{}
		var sent *message
		var changed error
		out.Failed = s.each(call, ids, func(i int) error {
			sent, err = q.send(now, &in.Entries[i])
			return err
		}, func(i int) {
			out.Successful = append(out.Successful, types.SendMessageBatchResultEntry{Id: ids[i], MessageId: aws.String(sent.id), MD5OfMessageBody: sent.md5()})
			changed = errors.Join(changed, checksum(sent, in.Entries[i].MessageBody))
		})
		return out, changed
	})
}

// checksum returns the client's error when the body that arrived is not the one it was to send.
func checksum(m *message, meant *string) error {
	if m.body == *meant {
		return nil
	}
	return fmt.Errorf("message checksum validation failed, message %s has invalid checksum", m.id)
}

func (m *message) md5() *string {
	sum := md5.Sum([]byte(m.body)) //nolint:gosec // what the service answers with
	return aws.String(hex.EncodeToString(sum[:]))
}

// send puts a message into the queue.
func (q *queue) send(now task.Instant, e *types.SendMessageBatchRequestEntry) (*message, error) {
	// The SDK replaces bytes that are not UTF-8 by U+FFFD.
	body := strings.ToValidUTF8(aws.ToString(e.MessageBody), "\ufffd")
	if body == "" {
		return nil, invalid("MissingParameter", "The request must contain the parameter MessageBody.")
	}
	if err := checkText(body); err != nil {
		return nil, err
	}
	if err := checkAttributes(e.MessageAttributes); err != nil {
		return nil, err
	}
	limit, _ := strconv.Atoi(q.settings[string(types.QueueAttributeNameMaximumMessageSize)])
	if messageBytes(body, e.MessageAttributes) > limit {
		return nil, invalidValue("One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", limit)
	}
	if e.DelaySeconds < 0 || e.DelaySeconds > delaySecondsMax {
		return nil, invalidValue("Value %d for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900.", e.DelaySeconds)
	}
	group, id := aws.ToString(e.MessageGroupId), aws.ToString(e.MessageDeduplicationId)
	if err := q.checkGroup(e); err != nil {
		return nil, err
	}
	if before, found := q.recent[id]; found && now.Sub(before.at) < recentFor {
		return before.message, nil
	}
	m := &message{body: body, attributes: copyAttributes(e.MessageAttributes), group: group}
	if id != "" {
		q.recent[id] = recent{m, now}
	}
	delay := time.Duration(e.DelaySeconds) * time.Second
	if e.DelaySeconds == 0 { // the SDK leaves out a zero
		delay = q.seconds(types.QueueAttributeNameDelaySeconds)
	}
	q.add(m, now, delay)
	q.settle(now)
	return m, nil
}

var groupForm = regexp.MustCompile("^[a-zA-Z0-9!-/:-@[-`{-~]{1,128}$")

// checkGroup refuses a message that a queue of its kind does not take.
func (q *queue) checkGroup(e *types.SendMessageBatchRequestEntry) error {
	switch {
	case e.MessageGroupId != nil && !groupForm.MatchString(*e.MessageGroupId):
		return invalidValue("MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length.")
	case !q.isFIFO() && e.MessageDeduplicationId != nil:
		return invalidValue("The request include parameter MessageDeduplicationId which is not valid for this queue type")
	case !q.isFIFO():
	case e.MessageGroupId == nil:
		return invalid("MissingParameter", "The request must contain the parameter MessageGroupId.")
	case e.MessageDeduplicationId == nil || !groupForm.MatchString(*e.MessageDeduplicationId):
		return invalidValue("The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly")
	case e.DelaySeconds != 0:
		return invalidValue("Value %d for parameter DelaySeconds is invalid. Reason: The request include parameter that is not valid for this queue type", e.DelaySeconds)
	}
	return nil
}

// checkText refuses characters that XML does not have.
func checkText(s string) error {
	for _, r := range s {
		switch {
		case r == '\t', r == '\n', r == '\r', r >= 0x20 && r <= 0xD7FF, r >= 0xE000 && r <= 0xFFFD, r >= 0x10000:
		default:
			return &types.InvalidMessageContents{Message: aws.String("Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF")}
		}
	}
	return nil
}

var attributeNameForm = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,256}$`)

func checkAttributes(all map[string]types.MessageAttributeValue) error {
	if len(all) > attributesMax {
		return invalidValue("Number of message attributes [%d] exceeds the allowed maximum [10].", len(all))
	}
	for name, v := range all {
		lower := strings.ToLower(name)
		if !attributeNameForm.MatchString(name) || strings.HasPrefix(lower, "aws.") || strings.HasPrefix(lower, "amazon.") ||
			strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") || strings.Contains(name, "..") {
			return invalidValue("The message attribute name '%s' is invalid.", name)
		}
		kind, _, _ := strings.Cut(aws.ToString(v.DataType), ".")
		text := aws.ToString(v.StringValue)
		switch {
		case kind == "Binary" && len(v.BinaryValue) > 0:
		case (kind == "String" || kind == "Number") && text != "":
			if err := checkText(strings.ToValidUTF8(text, "\ufffd")); err != nil {
				return err
			}
		default:
			return invalidValue("The message attribute '%s' must contain a non-empty value of its type '%s', which is String, Number or Binary.", name, aws.ToString(v.DataType))
		}
	}
	return nil
}

// messageBytes returns the size of a message as limits count it.
func messageBytes(body string, attributes map[string]types.MessageAttributeValue) int {
	size := len(body)
	for name, v := range attributes {
		size += len(name) + len(aws.ToString(v.DataType)) + len(aws.ToString(v.StringValue)) + len(v.BinaryValue)
	}
	return size
}

func copyAttributes(all map[string]types.MessageAttributeValue) map[string]types.MessageAttributeValue {
	out := make(map[string]types.MessageAttributeValue, len(all))
	for name, v := range all {
		c := types.MessageAttributeValue{DataType: aws.String(aws.ToString(v.DataType)), BinaryValue: append([]byte(nil), v.BinaryValue...)}
		if v.StringValue != nil {
			c.StringValue = aws.String(strings.ToValidUTF8(*v.StringValue, "\ufffd"))
		}
		out[name] = c
	}
	return out
}

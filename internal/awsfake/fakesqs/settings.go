package fakesqs

import (
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/task"
)

// numeric holds the ranges of the settings that are numbers.
var numeric = map[types.QueueAttributeName][2]int{ //nolint:gochecknoglobals // a table
	types.QueueAttributeNameVisibilityTimeout:             {0, 43200},
	types.QueueAttributeNameMessageRetentionPeriod:        {60, 1209600},
	types.QueueAttributeNameDelaySeconds:                  {0, delaySecondsMax},
	types.QueueAttributeNameReceiveMessageWaitTimeSeconds: {0, waitSecondsMax},
	types.QueueAttributeNameMaximumMessageSize:            {1024, 1 << 20},
}

// opaque settings are stored and have no effect.
var opaque = []types.QueueAttributeName{ //nolint:gochecknoglobals // a table
	types.QueueAttributeNameKmsMasterKeyId, types.QueueAttributeNameSqsManagedSseEnabled, types.QueueAttributeNamePolicy,
}

func defaultSettings(messageBytesMax int) map[string]string {
	return map[string]string{
		string(types.QueueAttributeNameVisibilityTimeout):             "30",
		string(types.QueueAttributeNameMessageRetentionPeriod):        "345600",
		string(types.QueueAttributeNameDelaySeconds):                  "0",
		string(types.QueueAttributeNameReceiveMessageWaitTimeSeconds): "0",
		string(types.QueueAttributeNameMaximumMessageSize):            strconv.Itoa(messageBytesMax),
	}
}

// checkSettings refuses settings that a queue cannot have.
func (s *SQS) checkSettings(all map[string]string) error {
	for name, text := range all {
		attribute := types.QueueAttributeName(name)
		if limits, isNumber := numeric[attribute]; isNumber {
			if n, err := strconv.Atoi(text); err != nil || n < limits[0] || n > limits[1] {
				return invalid("InvalidAttributeValue", "Invalid value for the parameter %s.", name)
			}
			continue
		}
		switch {
		case attribute == types.QueueAttributeNameRedrivePolicy:
			if err := s.checkRedrive(text); err != nil {
				return err
			}
		case attribute == fifo && text == "true":
		case !slices.Contains(opaque, attribute):
			return invalid("InvalidAttributeName", "Unknown Attribute %s.", name)
		}
	}
	return nil
}

func (s *SQS) checkRedrive(text string) error {
	if text == "" {
		return nil // removes the policy
	}
	policy, err := parseRedrive(text)
	probe := &queue{sqs: s, settings: map[string]string{string(types.QueueAttributeNameRedrivePolicy): text}}
	dead, most := (*queue)(nil), 0
	if err == nil {
		dead, most = probe.redrive()
	}
	switch {
	case err != nil || most < 1 || most > 1000:
		return invalidValue("Value %s for parameter RedrivePolicy is invalid. Reason: Redrive policy is not a valid JSON map with deadLetterTargetArn and a maxReceiveCount of 1 to 1000.", text)
	case dead == nil:
		return invalidValue("Value %s for parameter RedrivePolicy is invalid. Reason: Dead letter target does not exist: %s.", text, policy.Target)
	}
	return nil
}

// counted returns the counts as callers see them, which may lag.
func (q *queue) counted(now task.Instant) [inFlight + 1]int {
	if lag := q.sqs.cfg.CountLag; q.shownAt == 0 || now.Sub(q.shownAt) >= lag {
		q.shown, q.shownAt = q.counts, now
	}
	return q.shown
}

// attributes returns all attributes of the queue.
func (q *queue) attributes(now task.Instant) map[string]string {
	counts := q.counted(now)
	all := map[string]string{
		string(types.QueueAttributeNameQueueArn):                              "arn:aws:sqs:us-east-1:000000000000:" + q.name,
		string(types.QueueAttributeNameApproximateNumberOfMessages):           strconv.Itoa(counts[visible]),
		string(types.QueueAttributeNameApproximateNumberOfMessagesDelayed):    strconv.Itoa(counts[delayed]),
		string(types.QueueAttributeNameApproximateNumberOfMessagesNotVisible): strconv.Itoa(counts[inFlight]),
		string(types.QueueAttributeNameCreatedTimestamp):                      strconv.FormatInt(q.created.Time().Unix(), 10),
		string(types.QueueAttributeNameLastModifiedTimestamp):                 strconv.FormatInt(q.changed.Time().Unix(), 10),
	}
	for name, v := range q.settings {
		if v != "" {
			all[name] = v
		}
	}
	return all
}

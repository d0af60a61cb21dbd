package main

import (
	"context"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
)

func queue() kind {
	return kind{
		name: "aws_sqs_queue",
		schema: schema.Schema{Attributes: with(attributes{
			"name": namedText, "url": computedText, "fifo_queue": optionalFlag,
			"visibility_timeout_seconds": numberDefault(30), "message_retention_seconds": numberDefault(345600),
			"delay_seconds": numberDefault(0), "receive_wait_time_seconds": numberDefault(0), "max_message_size": numberDefault(262144),
			"policy": eitherText, "redrive_policy": eitherText, "redrive_allow_policy": eitherText,
			"sqs_managed_sse_enabled": eitherFlag, "kms_master_key_id": optionalText, "kms_data_key_reuse_period_seconds": eitherNumber,
		}, regional, named, tags)},
		conflicts: []string{"sqs_managed_sse_enabled", "kms_master_key_id"},
		identify: func(s *session, v values) {
			v["arn"] = s.arn("sqs", v.text("name"))
			if v["kms_data_key_reuse_period_seconds"] == nil {
				v["kms_data_key_reuse_period_seconds"] = int64(300)
			}
			if v["sqs_managed_sse_enabled"] == nil {
				v["sqs_managed_sse_enabled"] = v["kms_master_key_id"] == nil
			}
		},
		service: queues{},
	}
}

// queueNumbers are the attributes of SQS behind those of the resource.
var queueNumbers = map[string]types.QueueAttributeName{
	"visibility_timeout_seconds": types.QueueAttributeNameVisibilityTimeout,
	"message_retention_seconds":  types.QueueAttributeNameMessageRetentionPeriod,
	"delay_seconds":              types.QueueAttributeNameDelaySeconds,
	"receive_wait_time_seconds":  types.QueueAttributeNameReceiveMessageWaitTimeSeconds,
}

// queues are those of SQS. Encryption and policies are the account's: the emulator has none.
type queues struct{}

func queueAttributes(v values) map[string]string {
	all := map[string]string{}
	for name, of := range queueNumbers {
		if v[name] != nil {
			all[string(of)] = strconv.FormatInt(v.number(name), 10)
		}
	}
	if v.flag("fifo_queue") {
		all[string(types.QueueAttributeNameFifoQueue)] = "true"
	}
	if policy := v.text("redrive_policy"); policy != "" {
		all[string(types.QueueAttributeNameRedrivePolicy)] = policy
	}
	return all
}

// create takes a queue that is there with the same attributes for the one that is wanted, as SQS does.
func (queues) create(ctx context.Context, s *session, v values) error {
	out, err := s.sqs.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(v.text("name")), Attributes: queueAttributes(v)})
	if err != nil {
		return err
	}
	v["url"], v["id"] = aws.ToString(out.QueueUrl), aws.ToString(out.QueueUrl)
	return queues{}.read(ctx, s, v)
}

func (queues) read(ctx context.Context, s *session, v values) error {
	out, err := s.sqs.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: aws.String(v.text("id")), AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	if err != nil {
		return goneOr[*types.QueueDoesNotExist](err)
	}
	for name, of := range queueNumbers {
		if text, told := out.Attributes[string(of)]; told {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return err
			}
			v[name] = n
		}
	}
	if v["max_message_size"] == nil {
		v["max_message_size"] = int64(1048576) // SQS's own; the emulator tells none
	}
	if now := out.Attributes[string(types.QueueAttributeNameRedrivePolicy)]; !sameRedrive(now, v.text("redrive_policy")) {
		v["redrive_policy"] = now
	}
	return nil
}

// sameRedrive looks at what matters: the emulator makes ARNs of its own, and counts may be texts.
func sameRedrive(a, b string) bool {
	type policy struct {
		Target string `json:"deadLetterTargetArn"`
		Count  any    `json:"maxReceiveCount"`
	}
	var both [2]policy
	for i, text := range []string{a, b} {
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), &both[i]); err != nil {
			return a == b
		}
		both[i].Target = both[i].Target[strings.LastIndexByte(both[i].Target, ':')+1:] // the name in an ARN
		if text, ok := both[i].Count.(string); ok {
			n, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return false
			}
			both[i].Count = n
		}
	}
	return reflect.DeepEqual(both[0], both[1])
}

func (queues) find(ctx context.Context, s *session, v values) error {
	v["url"] = v["id"]
	v["name"] = v.text("id")[strings.LastIndexByte(v.text("id"), '/')+1:]
	return queues{}.read(ctx, s, v)
}

func (queues) update(ctx context.Context, s *session, prior, v values) error {
	attributes := queueAttributes(v)
	if v.text("redrive_policy") == "" && prior.text("redrive_policy") != "" {
		attributes[string(types.QueueAttributeNameRedrivePolicy)] = ""
	}
	_, err := s.sqs.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: aws.String(v.text("id")), Attributes: attributes})
	return err
}

func (queues) remove(ctx context.Context, s *session, v values) error {
	_, err := s.sqs.DeleteQueue(ctx, &sqs.DeleteQueueInput{QueueUrl: aws.String(v.text("id"))})
	return goneOr[*types.QueueDoesNotExist](err)
}

// queueDocuments are the resources that hang a document on a queue. They are the account's alone.
func queueDocuments() []kind {
	var all []kind
	for name, document := range map[string]string{
		"aws_sqs_queue_policy": "policy", "aws_sqs_queue_redrive_allow_policy": "redrive_allow_policy",
	} {
		all = append(all, kind{
			name:     name,
			adopts:   true,
			schema:   schema.Schema{Attributes: with(attributes{"queue_url": namingText, document: requiredText}, regional)},
			identify: func(_ *session, v values) { v["id"] = v["queue_url"] },
		})
	}
	return all
}

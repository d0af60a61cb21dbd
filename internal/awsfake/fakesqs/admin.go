package fakesqs

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/task"
)

var queueNameForm = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,80}$|^[a-zA-Z0-9_-]{1,75}\.fifo$`)

// CreateQueue is the client's method. A queue that exists with the same attributes is returned.
func (s *SQS) CreateQueue(ctx context.Context, in *sqs.CreateQueueInput, options ...func(*sqs.Options)) (*sqs.CreateQueueOutput, error) {
	return do(ctx, s, "CreateQueue", options, func(now task.Instant) (*sqs.CreateQueueOutput, error) {
		if err := awsfake.Only(in, "QueueName", "Attributes"); err != nil {
			return nil, err
		}
		name := aws.ToString(in.QueueName)
		if !queueNameForm.MatchString(name) {
			return nil, invalidValue("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
		}
		if err := s.checkSettings(in.Attributes); err != nil {
			return nil, err
		}
		if strings.HasSuffix(name, ".fifo") != (in.Attributes[string(fifo)] == "true") {
			return nil, invalidValue("The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo suffix and be 1 to 80 in length.")
		}
		url := aws.String(urlBase + name)
		if q := s.queues[name]; q != nil {
			for attribute, v := range in.Attributes {
				if q.settings[attribute] != v {
					return nil, &types.QueueNameExists{Message: aws.String("A queue already exists with the same name and a different value for attribute " + attribute)}
				}
			}
			return &sqs.CreateQueueOutput{QueueUrl: url}, nil
		}
		if at, found := s.deleted[name]; found && now.Sub(at) < deletedFor {
			return nil, &types.QueueDeletedRecently{Message: aws.String("You must wait 60 seconds after deleting a queue before you can create another with the same name.")}
		}
		q := s.newQueue(name, now)
		maps.Copy(q.settings, in.Attributes)
		s.queues[name] = q
		return &sqs.CreateQueueOutput{QueueUrl: url}, nil
	})
}

// DeleteQueue is the client's method. It works at once; AWS takes up to a minute.
func (s *SQS) DeleteQueue(ctx context.Context, in *sqs.DeleteQueueInput, options ...func(*sqs.Options)) (*sqs.DeleteQueueOutput, error) {
	return do(ctx, s, "DeleteQueue", options, func(now task.Instant) (*sqs.DeleteQueueOutput, error) {
		q, err := s.queue(in.QueueUrl, now)
		if err != nil {
			return nil, err
		}
		delete(s.queues, q.name)
		s.deleted[q.name] = now
		q.wake()
		return &sqs.DeleteQueueOutput{}, nil
	})
}

// PurgeQueue is the client's method. It works at once; AWS takes up to a minute.
func (s *SQS) PurgeQueue(ctx context.Context, in *sqs.PurgeQueueInput, options ...func(*sqs.Options)) (*sqs.PurgeQueueOutput, error) {
	return do(ctx, s, "PurgeQueue", options, func(now task.Instant) (*sqs.PurgeQueueOutput, error) {
		q, err := s.queue(in.QueueUrl, now)
		if err != nil {
			return nil, err
		}
		if q.purged > 0 && now.Sub(q.purged) < purgedFor {
			return nil, &types.PurgeQueueInProgress{Message: aws.String("Only one PurgeQueue operation on " + q.name + " is allowed every 60 seconds.")}
		}
		q.purged = now
		for _, m := range q.byID {
			q.move(m, gone)
		}
		return &sqs.PurgeQueueOutput{}, nil
	})
}

// StartMessageMoveTask is the client's method. Like other services that are not AWS, this one has no moves.
func (s *SQS) StartMessageMoveTask(ctx context.Context, _ *sqs.StartMessageMoveTaskInput, options ...func(*sqs.Options)) (*sqs.StartMessageMoveTaskOutput, error) {
	return do(ctx, s, "StartMessageMoveTask", options, func(task.Instant) (*sqs.StartMessageMoveTaskOutput, error) { return nil, noMoves() })
}

// ListMessageMoveTasks is the client's method.
func (s *SQS) ListMessageMoveTasks(ctx context.Context, _ *sqs.ListMessageMoveTasksInput, options ...func(*sqs.Options)) (*sqs.ListMessageMoveTasksOutput, error) {
	return do(ctx, s, "ListMessageMoveTasks", options, func(task.Instant) (*sqs.ListMessageMoveTasksOutput, error) { return nil, noMoves() })
}

func noMoves() error {
	return &types.UnsupportedOperation{Message: aws.String("Unsupported operation.")}
}

// GetQueueUrl is the client's method.
func (s *SQS) GetQueueUrl(ctx context.Context, in *sqs.GetQueueUrlInput, options ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error) { //nolint:revive // the SDK's name
	return do(ctx, s, "GetQueueUrl", options, func(task.Instant) (*sqs.GetQueueUrlOutput, error) {
		if err := awsfake.Only(in, "QueueName"); err != nil {
			return nil, err
		}
		name := aws.ToString(in.QueueName)
		if s.queues[name] == nil {
			return nil, noQueue()
		}
		return &sqs.GetQueueUrlOutput{QueueUrl: aws.String(urlBase + name)}, nil
	})
}

// GetQueueAttributes is the client's method.
func (s *SQS) GetQueueAttributes(ctx context.Context, in *sqs.GetQueueAttributesInput, options ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error) {
	return do(ctx, s, "GetQueueAttributes", options, func(now task.Instant) (*sqs.GetQueueAttributesOutput, error) {
		q, err := s.queue(in.QueueUrl, now)
		if err != nil {
			return nil, err
		}
		all := q.attributes(now)
		out := &sqs.GetQueueAttributesOutput{}
		for name, v := range all {
			if slices.Contains(in.AttributeNames, types.QueueAttributeNameAll) || slices.Contains(in.AttributeNames, types.QueueAttributeName(name)) {
				if out.Attributes == nil {
					out.Attributes = map[string]string{}
				}
				out.Attributes[name] = v
			}
		}
		return out, nil
	})
}

// SetQueueAttributes is the client's method.
func (s *SQS) SetQueueAttributes(ctx context.Context, in *sqs.SetQueueAttributesInput, options ...func(*sqs.Options)) (*sqs.SetQueueAttributesOutput, error) {
	return do(ctx, s, "SetQueueAttributes", options, func(now task.Instant) (*sqs.SetQueueAttributesOutput, error) {
		q, err := s.queue(in.QueueUrl, now)
		if err != nil {
			return nil, err
		}
		if err := s.checkSettings(in.Attributes); err != nil {
			return nil, err
		}
		maps.Copy(q.settings, in.Attributes)
		q.changed = now
		return &sqs.SetQueueAttributesOutput{}, nil
	})
}

package sqsclient

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// MovePaceMax is how many messages a second a move of SQS moves at most.
const MovePaceMax = 500

// Redrive is the redrive policy of a queue.
type Redrive struct {
	ARN         string // of the dead-letter queue
	Name        string // of the dead-letter queue
	ReceivesMax int    // after so many receives a message goes there
}

// ParseRedrive returns the redrive policy among a queue's attributes; false when there is none.
func ParseRedrive(attributes map[string]string) (Redrive, bool, error) {
	text := attributes[string(types.QueueAttributeNameRedrivePolicy)]
	if text == "" {
		return Redrive{}, false, nil
	}
	var r redrivePolicy
	err := json.Unmarshal([]byte(text), &r)
	name := r.DeadLetterTargetArn[strings.LastIndexByte(r.DeadLetterTargetArn, ':')+1:]
	if err != nil || name == "" {
		return Redrive{}, true, fmt.Errorf("redrive policy %q names no dead-letter queue", text)
	}
	most, err := r.MaxReceiveCount.Int64()
	return Redrive{r.DeadLetterTargetArn, name, int(most)}, true, err
}

// StartMove has SQS move the messages of a dead-letter queue back to the queues that they came from. pace is
// in messages a second, up to MovePaceMax; 0 leaves it to SQS.
func (c *Client) StartMove(ctx context.Context, dead Redrive, pace int) error {
	in := &sqs.StartMessageMoveTaskInput{SourceArn: &dead.ARN}
	if pace > 0 {
		n := int32(min(pace, MovePaceMax))
		in.MaxNumberOfMessagesPerSecond = &n
	}
	r := Request{Queue: dead.Name, Action: ActionStartMove}
	_, err := observed(ctx, c, &r, 0, func(ctx context.Context) (*sqs.StartMessageMoveTaskOutput, error) {
		return c.api.StartMessageMoveTask(ctx, in)
	})
	return err
}

// LatestMove returns the newest move of the messages of a dead-letter queue; nil when SQS knows none.
func (c *Client) LatestMove(ctx context.Context, dead Redrive) (*types.ListMessageMoveTasksResultEntry, error) {
	r := Request{Queue: dead.Name, Action: ActionListMoves}
	out, err := observed(ctx, c, &r, 0, func(ctx context.Context) (*sqs.ListMessageMoveTasksOutput, error) {
		return c.api.ListMessageMoveTasks(ctx, &sqs.ListMessageMoveTasksInput{SourceArn: &dead.ARN})
	})
	if err != nil || len(out.Results) == 0 {
		return nil, err
	}
	return &out.Results[0], nil
}

// Purge has SQS delete all messages of a queue, which takes up to a minute.
func (c *Client) Purge(ctx context.Context, queue string) error {
	r := Request{Queue: queue, Action: ActionPurge}
	_, err := request(ctx, c, &r, 0, func(ctx context.Context, url *string) (*sqs.PurgeQueueOutput, error) {
		return c.api.PurgeQueue(ctx, &sqs.PurgeQueueInput{QueueUrl: url})
	})
	return err
}

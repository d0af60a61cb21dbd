package sqsclient

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// Poll are the parameters of a receive.
type Poll struct {
	Max        int           // messages
	Visibility time.Duration // how long the messages are hidden from others; whole seconds, rounded up
	Attributes []string      // names of the message attributes to return
	Wait       time.Duration // how long to wait for a message, up to PollWait; whole seconds; 0: PollWait
}

// Receive polls once. It returns at once when there are messages, and after Poll.Wait otherwise. When ctx
// ends it goes on for Config.PollGrace.
func (c *Client) Receive(ctx context.Context, queue string, p Poll) ([]types.Message, error) {
	wait := cmp.Or(p.Wait, PollWait)
	for {
		polling, stop := c.pollContext(ctx)
		r := Request{Queue: queue, Action: ActionReceive}
		out, err := request(polling, c, &r, wait, func(ctx context.Context, url *string) (*sqs.ReceiveMessageOutput, error) {
			out, err := c.api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
				QueueUrl: url, MaxNumberOfMessages: int32(min(p.Max, BatchMax)), WaitTimeSeconds: SecondsUp(wait),
				VisibilityTimeout: SecondsUp(p.Visibility), MessageAttributeNames: p.Attributes,
				MessageSystemAttributeNames: []types.MessageSystemAttributeName{
					types.MessageSystemAttributeNameSentTimestamp, types.MessageSystemAttributeNameApproximateReceiveCount,
					types.MessageSystemAttributeNameMessageGroupId,
				},
			})
			if err == nil {
				r.Entries, r.Bytes = len(out.Messages), bytesOf(out.Messages)
			}
			return out, err
		})
		isStale := errors.Is(context.Cause(polling), errStale)
		stop()
		switch {
		case err == nil:
			return out.Messages, nil
		case !isStale || ctx.Err() != nil || c.ctx.Err() != nil:
			return nil, err
		}
	}
}

func bytesOf(messages []types.Message) (bytes int) {
	for i := range messages {
		bytes += len(aws.ToString(messages[i].Body))
	}
	return bytes
}

// Receives returns how often SQS has handed out a message, this time included.
func Receives(m *types.Message) int {
	n, err := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// pollContext returns the context of a poll. It ends PollGrace after ctx, when the client is closed, and when
// an outage is over, since the connection may be dead.
func (c *Client) pollContext(ctx context.Context) (polling context.Context, stop func()) {
	polling, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	outage := c.outage.current()
	stopWatching := context.AfterFunc(outage, func() { cancel(context.Cause(outage)) })
	var graces sync.WaitGroup
	graces.Add(1)
	stopLeaving := context.AfterFunc(ctx, func() {
		defer graces.Done()
		if c.PollGrace > 0 {
			_ = clock.Sleep(polling, c.Clock, c.PollGrace)
		}
		cancel(context.Cause(ctx))
	})
	return polling, func() {
		cancel(context.Canceled)
		stopWatching()
		if stopLeaving() {
			graces.Done()
		}
		graces.Wait()
	}
}

// Pause waits before a caller repeats what failed, and no longer than until SQS answers again.
func (c *Client) Pause(ctx context.Context, d time.Duration) {
	outage := c.outage.current()
	timer := c.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-outage.Done():
	case <-ctx.Done():
	}
}

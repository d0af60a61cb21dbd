package sqsclient

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Poll is what a receive asks for.
type Poll struct {
	Max        int           // messages
	Visibility time.Duration // for how long others do not see them; whole seconds, rounded up
	Attributes []string      // of messages, that come with them
}

// Receive polls once: at once when messages are there, up to PollWait otherwise. When ctx ends it goes on for
// Config.PollGrace.
func (c *Client) Receive(ctx context.Context, queue string, p Poll) ([]types.Message, error) {
	for {
		polling, stop := c.poll(ctx)
		r := Request{Queue: queue, Action: ActionReceive}
		out, err := request(polling, c, &r, PollWait, func(ctx context.Context, url *string) (*sqs.ReceiveMessageOutput, error) {
			out, err := c.api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
				QueueUrl: url, MaxNumberOfMessages: int32(min(p.Max, BatchMax)), WaitTimeSeconds: int32(PollWait / time.Second),
				VisibilityTimeout: SecondsUp(p.Visibility), MessageAttributeNames: p.Attributes,
				MessageSystemAttributeNames: []types.MessageSystemAttributeName{
					types.MessageSystemAttributeNameSentTimestamp, types.MessageSystemAttributeNameApproximateReceiveCount,
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

// Receives is how often a message was received, this time included, as far as SQS knows.
func Receives(m *types.Message) int {
	n, err := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	if err != nil || n < 1 {
		return 1
	}
	return n
}

// errStale ends polls that began before the service was out of reach.
var errStale = errors.New("the service answers again")

// recovery notices that a service that was out of reach answers again. A connection that went dead under a
// poll looks like one whose queue is empty, for as long as polls wait; and whoever backs off need not wait
// any longer.
type recovery struct {
	silent atomic.Bool // requests got no answer lately, and none has since

	mu    sync.Mutex // guards all below
	at    task.Instant
	again chan struct{} // closed when it answers again
	polls map[*onPoll]struct{}
}

// onPoll is a poll on its way.
type onPoll struct {
	began task.Instant
	end   context.CancelCauseFunc
}

func (r *recovery) init() { r.again, r.polls = make(chan struct{}), map[*onPoll]struct{}{} }

// noteAnswer takes the outcome of every request.
func (c *Client) noteAnswer(err error) {
	r := &c.recovery
	if !isSilence(err) && !r.silent.Load() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if isSilence(err) {
		r.at = clock.Steady(c.Clock)
		r.silent.Store(true)
		return
	}
	if !r.silent.Swap(false) {
		return
	}
	close(r.again)
	r.again = make(chan struct{})
	for p := range r.polls {
		if p.began < r.at {
			p.end(errStale)
		}
	}
}

// poll is the context of a poll: it ends a while after ctx does, when the client is closed, and when the poll
// is stale.
func (c *Client) poll(ctx context.Context) (polling context.Context, stop func()) {
	polling, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	p := &onPoll{clock.Steady(c.Clock), cancel}
	c.recovery.mu.Lock()
	c.recovery.polls[p] = struct{}{}
	c.recovery.mu.Unlock()
	closing := context.AfterFunc(c.ctx, func() { cancel(context.Canceled) })
	var ends sync.WaitGroup
	ends.Add(1)
	leaving := context.AfterFunc(ctx, func() {
		defer ends.Done()
		if c.PollGrace > 0 {
			_ = clock.Sleep(polling, c.Clock, c.PollGrace)
		}
		cancel(context.Cause(ctx))
	})
	return polling, func() {
		cancel(context.Canceled)
		closing()
		if leaving() {
			ends.Done()
		}
		ends.Wait()
		c.recovery.mu.Lock()
		delete(c.recovery.polls, p)
		c.recovery.mu.Unlock()
	}
}

// Rest waits before a caller tries again what failed: at most until the service answers again. It is false
// when ctx ends.
func (c *Client) Rest(ctx context.Context, wait time.Duration) bool {
	c.recovery.mu.Lock()
	again := c.recovery.again
	c.recovery.mu.Unlock()
	timer := c.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-again:
	case <-ctx.Done():
		return false
	}
	return true
}

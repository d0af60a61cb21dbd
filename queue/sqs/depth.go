package sqs

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
)

// Depth implements queue.Driver. It is the latest answer of SQS plus what this process did since. SQS counts
// the messages of suspects with the others, so the depth of their names is only what is prefetched here.
func (d *Driver) Depth(ctx context.Context, name queue.Name) (queue.Depth, error) {
	if err := d.usable(ctx); err != nil {
		return queue.Depth{}, err
	}
	l, err := d.lane(keyOf(name))
	if err != nil {
		return queue.Depth{}, err
	}
	if err := l.refreshDepth(ctx); err != nil {
		return queue.Depth{}, err
	}
	perMessage, now := l.tasksPerMessage(), clock.Steady(d.Clock)
	here := d.prefetch.depth(name, now)
	p := &l.depths
	p.mu.Lock()
	defer p.mu.Unlock()
	there := max(0, int(float64(p.messages)*perMessage+0.5)+p.change)
	depth := queue.Depth{Visible: here.Visible, InFlight: here.InFlight, Oldest: max(here.Oldest, p.oldest(now, there))}
	if name.Class == queue.Normal {
		depth.Visible += there
		depth.InFlight = max(depth.InFlight, p.inFlight-here.Visible)
	}
	return depth, nil
}

func (l *lane) tasksPerMessage() float64 {
	l.polls.mu.Lock()
	defer l.polls.mu.Unlock()
	return l.polls.tasksPerMessage
}

// refreshDepth asks SQS unless the latest answer is fresh. All callers share one request. They wait for it
// only when there is no earlier answer.
func (l *lane) refreshDepth(ctx context.Context) error {
	p := &l.depths
	isFresh, isKnown := p.state(clock.Steady(l.driver.Clock))
	if isFresh || isKnown && p.isAsking.Load() {
		return nil
	}
	answer := p.asking.DoChan("", func() (any, error) {
		p.isAsking.Store(true)
		defer p.isAsking.Store(false)
		return nil, l.askDepth()
	})
	select {
	case result := <-answer:
		return result.Err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l *lane) askDepth() error {
	have, err := l.driver.client.Attributes(l.driver.ctx, l.name, depthAttributes...)
	if err != nil {
		return err
	}
	visible := sqsclient.Count(have, types.QueueAttributeNameApproximateNumberOfMessages)
	inFlight := sqsclient.Count(have, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible)
	perMessage, now := l.tasksPerMessage(), clock.Steady(l.driver.Clock)
	p := &l.depths
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.messages, p.inFlight, p.change = now, messagesIn(have)-inFlight, inFlight, 0
	if p.first == 0 {
		p.first = now
	}
	if visible == 0 {
		p.emptyAt = now
	}
	if float64(p.total-p.newer.total) >= perMessage*float64(p.messages) {
		p.older, p.newer = p.newer, sendMark{now, p.total}
	}
	return nil
}

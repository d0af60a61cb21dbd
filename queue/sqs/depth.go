package sqs

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/singleflight"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
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

const (
	// depthFresh is how long an answer of SQS is used; depthFreshShort is the same for a queue with fewer
	// than depthShort messages.
	depthFresh      = time.Second
	depthFreshShort = 5 * time.Second
	depthShort      = 500
	// ageFresh is how long the age of a received message says something about those that were not received.
	ageFresh = 10 * time.Second
	// ageUnknown is the least age of a backlog of which nothing is known. It is old enough that the scheduler
	// does not send its tasks again at once, and not so old that a lost message is forgotten.
	ageUnknown = task.EnqueueTimeout
)

// depths is what is known about the messages of a queue. Instants are by clock.Steady; 0 means never.
type depths struct {
	asking   singleflight.Group
	isAsking atomic.Bool

	mu       sync.Mutex   // guards all below
	first    task.Instant // first answer of SQS
	at       task.Instant // latest answer
	messages int          // visible and delayed ones in that answer
	inFlight int          // received ones in that answer
	change   int          // tasks sent since, less those received

	emptyAt    task.Instant // latest answer without visible messages
	receivedAt task.Instant // latest receive
	age        time.Duration
	total      int // tasks that this process ever sent
	// older and newer are earlier values of total. When this process has sent as many tasks since one of them
	// as the queue holds, no task in it is older.
	older, newer sendMark
}

type sendMark struct {
	at    task.Instant
	total int
}

func (p *depths) sent(tasks int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change += tasks
	p.total += tasks
}

func (p *depths) received(now task.Instant, age time.Duration, tasks int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change -= tasks
	p.age, p.receivedAt = age, now
}

// state reports whether the latest answer is fresh, and whether there is any.
func (p *depths) state(now task.Instant) (isFresh, isKnown bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := depthFresh
	if p.messages+p.change < depthShort {
		fresh = depthFreshShort
	}
	return p.at > 0 && now.Sub(p.at) < fresh, p.at > 0
}

// oldest returns how long the oldest task may have waited at SQS, which does not tell. It is no longer than
// since the queue was empty, nor since this process had sent all but the tasks that are there now; and about
// as long as the latest received message waited. When nothing of that is known, it is since the first answer.
func (p *depths) oldest(now task.Instant, there int) time.Duration {
	if there == 0 {
		return 0
	}
	const unknown = time.Duration(math.MaxInt64)
	age := unknown
	if p.emptyAt > 0 {
		age = min(age, now.Sub(p.emptyAt))
	}
	if p.receivedAt > 0 && now.Sub(p.receivedAt) < ageFresh {
		age = min(age, p.age+now.Sub(p.receivedAt))
	}
	for _, m := range []sendMark{p.older, p.newer} {
		if m.at > 0 && p.total-m.total >= there {
			age = min(age, now.Sub(m.at))
		}
	}
	if age == unknown {
		age = max(ageUnknown, now.Sub(p.first))
	}
	return max(0, age)
}

// depthAttributes are the visible, the delayed and the received messages of a queue.
var depthAttributes = []types.QueueAttributeName{
	types.QueueAttributeNameApproximateNumberOfMessages,
	types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
}

func messagesIn(attributes map[string]string) (n int) {
	for _, count := range depthAttributes {
		n += sqsclient.Count(attributes, count)
	}
	return n
}

package sqs

import (
	"context"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"golang.org/x/sync/singleflight"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// depthFresh is how long a depth is used, depthFreshShort that of a queue with few messages, counting in
	// what this process sent and received since.
	depthFresh      = time.Second
	depthFreshShort = 5 * time.Second
	depthShort      = 500
	// ageFresh is how long the age of what was received says something about what was not.
	ageFresh = 10 * time.Second
	// ageUnknown is how old the messages of a queue are taken to be, at least, of which nothing is known but
	// that it is not empty: old enough that the scheduler does not send them again at once, and not so old
	// that it forgets one that got lost.
	ageUnknown = task.EnqueueTimeout
	// inFlightWarn and inFlightWarnEvery are when, and how often at most, a queue near SQS's bound is logged.
	inFlightWarn      = InFlightMax * 9 / 10
	inFlightWarnEvery = time.Minute
)

// depths is what is known of how much a queue holds.
type depths struct {
	asking   singleflight.Group
	isAsking atomic.Bool

	mu       sync.Mutex // guards all below
	at       task.Instant
	since    task.Instant // when it was first measured
	messages int          // visible and delayed, at that time
	inFlight int
	change   int // tasks sent since, less those received

	emptyAt task.Instant // when nothing in it was last seen to be due
	age     time.Duration
	ageAt   task.Instant // when a message of that age was received
	total   int          // tasks sent by this process
	// All that is in the queue may have been sent since older; newer takes its place once as much was sent
	// since then.
	older, newer sendMark
	warnedAt     task.Instant
}

// sendMark is how many tasks this process had sent until then.
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
	p.age, p.ageAt = age, now
}

// Depth implements queue.Driver. It is what SQS said a short while ago, and what this process did since. The
// messages of suspects are counted with the others at SQS; for their names it is only what waits here.
func (d *Driver) Depth(ctx context.Context, name queue.Name) (queue.Depth, error) {
	if err := d.refusal(ctx); err != nil {
		return queue.Depth{}, err
	}
	l, err := d.lane(keyOf(name))
	if err != nil {
		return queue.Depth{}, err
	}
	if err := l.measure(ctx); err != nil {
		return queue.Depth{}, err
	}
	perMessage, now := l.perMessage(), clock.Steady(d.Clock)
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

func (l *lane) perMessage() float64 {
	l.polls.mu.Lock()
	defer l.polls.mu.Unlock()
	return l.polls.tasksPerMessage
}

// measure asks SQS unless what is known will do. While somebody asks, others use what is known; where nothing
// is, they wait for that answer, also if there is none: one after the other they would wait for as many
// timeouts.
func (l *lane) measure(ctx context.Context) error {
	p := &l.depths
	isFresh, isKnown := p.state(clock.Steady(l.driver.Clock))
	if isFresh || isKnown && p.isAsking.Load() {
		return nil
	}
	answer := p.asking.DoChan("", func() (any, error) {
		p.isAsking.Store(true)
		defer p.isAsking.Store(false)
		return nil, l.inquire()
	})
	select {
	case one := <-answer:
		return one.Err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// state says whether what is known will do, and whether anything is known.
func (p *depths) state(now task.Instant) (isFresh, isKnown bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fresh := depthFresh
	if p.messages+p.change < depthShort {
		fresh = depthFreshShort
	}
	return p.at > 0 && now.Sub(p.at) < fresh, p.at > 0
}

// inquire asks SQS.
func (l *lane) inquire() error {
	d := l.driver
	have, err := d.client.Attributes(d.ctx, l.name, types.QueueAttributeNameApproximateNumberOfMessages,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible)
	if err != nil {
		return err
	}
	l.depths.note(clock.Steady(d.Clock), l.perMessage(),
		countIn(have, types.QueueAttributeNameApproximateNumberOfMessages),
		countIn(have, types.QueueAttributeNameApproximateNumberOfMessagesDelayed),
		countIn(have, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible))
	l.warnOfBound()
	return nil
}

func countIn(attributes map[string]string, name types.QueueAttributeName) int {
	n, err := strconv.Atoi(attributes[string(name)])
	if err != nil {
		return 0
	}
	return max(n, 0)
}

func (p *depths) note(now task.Instant, perMessage float64, visible, delayed, inFlight int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at, p.messages, p.inFlight, p.change = now, visible+delayed, inFlight, 0
	if p.since == 0 {
		p.since = now
	}
	if visible == 0 {
		p.emptyAt = now
	}
	if float64(p.total-p.newer.total) >= perMessage*float64(p.messages) {
		p.older, p.newer = p.newer, sendMark{now, p.total}
	}
}

// oldest is how long the oldest message may have waited at SQS, which does not say: not longer than since
// nothing in the queue was due, nor since this process had sent all but what is there now; and about as long
// as what was received just now. Where none of that is known it is since this process looked first.
func (p *depths) oldest(now task.Instant, there int) time.Duration {
	if there == 0 {
		return 0
	}
	const none = time.Duration(math.MaxInt64)
	age := none
	if p.emptyAt > 0 {
		age = min(age, now.Sub(p.emptyAt))
	}
	if p.ageAt > 0 && now.Sub(p.ageAt) < ageFresh {
		age = min(age, p.age+now.Sub(p.ageAt))
	}
	for _, m := range []sendMark{p.older, p.newer} {
		if m.at > 0 && p.total-m.total >= there {
			age = min(age, now.Sub(m.at))
		}
	}
	if age == none {
		age = max(ageUnknown, now.Sub(p.since))
	}
	return max(0, age)
}

func (l *lane) warnOfBound() {
	now := clock.Steady(l.driver.Clock)
	l.depths.mu.Lock()
	inFlight, warn := l.depths.inFlight, l.depths.inFlight >= inFlightWarn && now.Sub(l.depths.warnedAt) >= inFlightWarnEvery
	if warn {
		l.depths.warnedAt = now
	}
	l.depths.mu.Unlock()
	if warn {
		l.driver.Log.WarnContext(l.driver.ctx, "queue has almost as many messages in flight as SQS allows; beyond that it stays silent",
			slog.String("queue", l.name), slog.Int("in_flight", inFlight), slog.Int("most", InFlightMax))
	}
}

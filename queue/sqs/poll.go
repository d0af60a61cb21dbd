package sqs

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// pauseTasks is how many tasks must be likely to come during a pause between polls for it to be made.
	pauseTasks = 2
	// youngPoll is how long SQS may take to answer a poll of a queue that is not empty.
	youngPoll = 200 * time.Millisecond
	// pollBackoffMin and pollBackoffMax are the longest waits after the first and after many failed polls.
	pollBackoffMin = 200 * time.Millisecond
	pollBackoffMax = 10 * time.Second
	// rateHalfLife is how fast the rate at which tasks are taken is forgotten.
	rateHalfLife = 500 * time.Millisecond
	// newerDelay is how long a message of a newer format is left to others, unknownDelay one of a lambda that is not
	// known here; after unknownTriesMax deliveries such a lambda is taken for gone.
	newerDelay      = 30 * time.Second
	unknownDelay    = 5 * time.Second
	unknownTriesMax = 5
	// deliveryDelay is how long a message that is for a consumer outside is left to it.
	deliveryDelay = 15 * time.Minute
	// apartMax bounds how long a suspect that nobody came for is left alone.
	apartMax = 10 * time.Second
)

// polls is the demand for a lane's messages and what is done about it.
type polls struct {
	mu      sync.Mutex // guards all below
	waiters int        // Receives at work
	want    int        // how many messages they take together
	running int
	full    bool // the latest poll brought as many messages as it asked for

	tasksPerMessage float64 // of what came lately
	taken           float64 // tasks taken, decaying with rateHalfLife
	takenAt         task.Instant

	failures int
	going    map[*onPoll]struct{}
}

// join notes a Receive that waits for up to so many messages.
func (l *lane) join(limit int) {
	l.polls.mu.Lock()
	defer l.polls.mu.Unlock()
	l.polls.waiters++
	l.polls.want += limit
	l.tend()
}

func (l *lane) leave(limit int) {
	l.polls.mu.Lock()
	defer l.polls.mu.Unlock()
	l.polls.waiters--
	l.polls.want -= limit
}

func (l *lane) isWaitedFor() bool {
	l.polls.mu.Lock()
	defer l.polls.mu.Unlock()
	return l.polls.waiters > 0 || l.polls.running > 0
}

// took counts tasks that somebody took.
func (l *lane) took(tasks int) {
	now := l.driver.Clock.Now()
	l.polls.mu.Lock()
	defer l.polls.mu.Unlock()
	l.polls.taken = l.polls.decayed(now) + float64(tasks)
	l.polls.takenAt = now
}

func (p *polls) decayed(now task.Instant) float64 {
	age := now.Sub(p.takenAt).Seconds()
	return p.taken * math.Exp2(-max(age, 0)/rateHalfLife.Seconds())
}

// rate is how many tasks are taken a second.
func (p *polls) rate(now task.Instant) float64 {
	return p.decayed(now) * math.Ln2 / rateHalfLife.Seconds()
}

// expected is how many tasks are likely to be taken within a time.
func (l *lane) expected(now task.Instant, within time.Duration) int {
	l.polls.mu.Lock()
	defer l.polls.mu.Unlock()
	return int(l.polls.rate(now) * within.Seconds())
}

// missing is how many messages more are wanted than the buffer has, counting in what is likely to be taken while it may be
// held; not positive when nobody waits. The caller holds the lock.
func (l *lane) missing() int {
	if l.polls.waiters == 0 || l.driver.closed.Load() {
		return 0
	}
	missing := l.polls.want - l.buffered()
	if missing <= 0 {
		return 0
	}
	missing += int(l.polls.rate(l.driver.Clock.Now()) * l.driver.Hold.Seconds() / 2)
	return int(math.Ceil(float64(missing) / l.polls.tasksPerMessage))
}

// buffered is how many tasks of the lane wait here.
func (l *lane) buffered() int {
	n := 0
	for class := queue.Normal; class <= queue.Blamed; class++ {
		n += l.driver.buffer.Waiting(queue.Name{Lambda: l.key.lambda, Priority: l.key.priority, Class: class})
	}
	return n
}

// tend starts polls while they are called for: one, and more of them side by side as long as they come back full. The
// caller holds the lock.
func (l *lane) tend() {
	for {
		missing := l.missing() - l.polls.running*batchEntriesMax
		if l.polls.running > 0 && (!l.polls.full || missing <= 0 || l.polls.running >= l.driver.PollersMax) {
			return
		}
		if missing <= 0 || !l.driver.work.start(l.poll) {
			return
		}
		l.polls.running++
	}
}

// poll receives until nothing more is called for.
func (l *lane) poll() {
	for {
		l.polls.mu.Lock()
		wanted := min(l.missing(), batchEntriesMax)
		if wanted <= 0 || l.polls.running > 1 && !l.polls.full {
			l.polls.running--
			l.polls.mu.Unlock()
			return
		}
		now := l.driver.Clock.Now()
		ctx, end := context.WithCancelCause(l.driver.pollCtx)
		going := &onPoll{now, end}
		l.polls.going[going] = struct{}{}
		l.polls.mu.Unlock()

		got, err := l.receive(ctx, wanted)
		isRevived := errors.Is(context.Cause(ctx), errRevived)
		end(nil)

		l.polls.mu.Lock()
		delete(l.polls.going, going)
		l.polls.full = err == nil && got >= wanted
		pause := time.Duration(0)
		switch {
		case isRevived:
		case err != nil:
			pause = l.failed(err)
		case l.polls.failures > 0:
			l.recovered()
		case got > 0 && !l.polls.full && l.polls.rate(now)*l.driver.PollPause.Seconds() >= pauseTasks:
			pause = l.driver.PollPause
		}
		if l.polls.full {
			l.tend()
		}
		l.polls.mu.Unlock()
		if pause > 0 && !l.driver.rest(pause) {
			continue // closed: nothing is missing
		}
	}
}

// failed says how long to wait after a poll that failed, and logs the first of a series.
func (l *lane) failed(err error) time.Duration {
	if l.driver.closed.Load() {
		return 0
	}
	l.polls.failures++
	if l.polls.failures == 1 {
		l.driver.Log.WarnContext(l.driver.ctx, "queue cannot be received from", slog.String("queue", l.name), slog.Any("error", err))
	}
	most := min(pollBackoffMin<<min(l.polls.failures-1, 10), pollBackoffMax)
	return time.Duration(l.driver.Clock.Uint64()%uint64(most)) + 1
}

func (l *lane) recovered() {
	l.driver.Log.InfoContext(l.driver.ctx, "queue can be received from again",
		slog.String("queue", l.name), slog.Int("failures", l.polls.failures))
	l.polls.failures = 0
}

// receive is one poll. A poll that is on its way is never cut short while the driver is open and SQS answers: what it
// had found would be hidden from everyone for the visibility timeout.
func (l *lane) receive(ctx context.Context, most int) (messages int, err error) {
	d := l.driver
	r := Request{Queue: l.name, Action: ActionReceive, within: pollWait + d.RequestTimeout}
	out, err := receiveFrom(ctx, d, &r, func(ctx context.Context, url *string) (*sqs.ReceiveMessageOutput, error) {
		return d.api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
			QueueUrl: url, MaxNumberOfMessages: int32(most), WaitTimeSeconds: int32(pollWait / time.Second),
			VisibilityTimeout:     int32(d.PollVisibility / time.Second),
			MessageAttributeNames: []string{AttributeTaskID}, // which only deliveries have
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{
				types.MessageSystemAttributeNameSentTimestamp, types.MessageSystemAttributeNameApproximateReceiveCount,
			},
		})
	})
	if err != nil {
		return 0, err
	}
	l.accept(out.Messages)
	return len(out.Messages), nil
}

// receiveFrom is requestTo for polls, whose size is known only afterwards.
func receiveFrom(ctx context.Context, d *Driver, r *Request, call func(ctx context.Context, url *string) (*sqs.ReceiveMessageOutput, error)) (*sqs.ReceiveMessageOutput, error) {
	r.measure = func(out any) (entries, bytes int) {
		o, ok := out.(*sqs.ReceiveMessageOutput)
		if !ok || o == nil {
			return 0, 0
		}
		for i := range o.Messages {
			bytes += len(aws.ToString(o.Messages[i].Body))
		}
		return len(o.Messages), bytes
	}
	return requestTo(ctx, d, *r, call)
}

// accept puts what a poll brought into the buffer.
func (l *lane) accept(received []types.Message) {
	d, now := l.driver, l.driver.Clock.Now()
	var messages []queue.Message
	var numbers []uint64
	for i := range received {
		m := &received[i]
		tasks := l.open(m, now)
		if len(tasks) == 0 {
			continue
		}
		for k := range tasks {
			messages = append(messages, queue.Message{Task: tasks[k], Again: countOf(m) > 1})
		}
		numbers = append(numbers, d.hand.add(&held{
			lane: l, id: l.idOf(m), handle: aws.ToString(m.ReceiptHandle), received: now, renew: now.Add(d.PollVisibility / 2), apart: apart(m, &tasks[0]),
		}, len(tasks))...)
	}
	if len(messages) == 0 {
		return
	}
	if !d.buffer.Put(messages, numbers) {
		for i := range messages {
			messages[i].Receipt = ""
		}
		l.returnAll(numbers)
		return
	}
	d.sweep()
}

// apart is for how long a message is left alone that nobody here came for. A process that runs a blamed task takes no other
// such, and its polls for other tasks would fetch them over and over.
func apart(m *types.Message, t *task.Task) time.Duration {
	if queue.NameFor(t).Class == queue.Normal {
		return 0
	}
	return min(time.Duration(countOf(m))*time.Second, apartMax)
}

// returnAll makes messages visible again none of whose tasks was handed out.
func (l *lane) returnAll(numbers []uint64) {
	whole, _ := l.driver.hand.whole(numbers)
	for _, m := range whole {
		l.returns.add([]returned{{handle: m.handle}}, 0, false)
		l.driver.observeReturned(l.name, len(m.pieces), 0)
	}
}

// idOf tells a message from all others in hand.
func (l *lane) idOf(m *types.Message) string { return l.name + "/" + aws.ToString(m.MessageId) }

// open returns the tasks of a message, or none after doing what is to be done with it.
func (l *lane) open(m *types.Message, now task.Instant) []task.Task {
	d, handle := l.driver, aws.ToString(m.ReceiptHandle)
	switch d.hand.meet(l.idOf(m), handle, now.Add(d.PollVisibility/2)) {
	case metInHand:
		d.observeDiscarded(l.name, DiscardDuplicate)
		return nil
	case metDeleted:
		d.observeDiscarded(l.name, DiscardDuplicate)
		l.deletes.add([]string{handle}, d.DeleteLinger, true)
		return nil
	case metNever:
	}
	tasks, err := decodeBody(aws.ToString(m.Body))
	if err != nil {
		l.refuse(m, err)
		return nil
	}
	age := l.ageOf(m, now)
	l.depths.received(now, age, len(tasks))
	l.noteSize(len(tasks))
	d.observeReceived(l.name, len(tasks), age)
	home := laneKey{} // the tasks of a message are all of one lane
	for i := range tasks {
		key := keyOf(queue.NameFor(&tasks[i]))
		if (i == 0 || key != home) && !l.isHome(m, key) {
			return nil
		}
		home = key
	}
	return tasks
}

// refuse is what becomes of a message that cannot be read. A delivery is somebody's data, and there because a deliver lambda of
// this name was: it is never deleted.
func (l *lane) refuse(m *types.Message, err error) {
	d := l.driver
	d.Log.WarnContext(d.ctx, "message cannot be read", slog.String("queue", l.name),
		slog.String("message_id", aws.ToString(m.MessageId)), slog.Any("error", err))
	if errors.Is(err, errEnvelopeVersion) {
		d.observeDiscarded(l.name, DiscardNewer)
		l.returns.add([]returned{{handle: aws.ToString(m.ReceiptHandle), after: newerDelay}}, d.DeleteLinger, true)
		return
	}
	if _, isDelivery := m.MessageAttributes[AttributeTaskID]; isDelivery {
		d.observeDiscarded(l.name, DiscardDelivery)
		l.returns.add([]returned{{handle: aws.ToString(m.ReceiptHandle), after: deliveryDelay}}, d.DeleteLinger, true)
		return
	}
	d.observeDiscarded(l.name, DiscardUndecodable)
	l.deletes.add([]string{aws.ToString(m.ReceiptHandle)}, d.DeleteLinger, true)
}

// isHome reports whether a task's lambda has this queue. If not, the message is sent away. A lambda that is not known may have been created elsewhere a moment ago, or is gone;
// its name, and so its queue, may be another lambda's by now.
func (l *lane) isHome(m *types.Message, key laneKey) bool {
	d, handle := l.driver, aws.ToString(m.ReceiptHandle)
	name, _, err := d.queueName(key)
	switch {
	case err == nil && name == l.name:
		return true
	case err != nil && countOf(m) <= unknownTriesMax:
		d.observeDiscarded(l.name, DiscardUnknown)
		l.returns.add([]returned{{handle: handle, after: unknownDelay}}, d.DeleteLinger, true)
	case err != nil:
		d.observeDiscarded(l.name, DiscardUnknown)
		l.deletes.add([]string{handle}, d.DeleteLinger, true)
	default:
		d.observeDiscarded(l.name, DiscardMisplaced)
		l.deletes.add([]string{handle}, d.DeleteLinger, true)
	}
	return false
}

// noteSize follows how many tasks a message has.
func (l *lane) noteSize(tasks int) {
	l.polls.mu.Lock()
	defer l.polls.mu.Unlock()
	l.polls.tasksPerMessage += (float64(tasks) - l.polls.tasksPerMessage) / 8
}

// ageOf is how long a message was in its queue. Its time is SQS's, ours may differ; SQS's delay is not counted out.
func (l *lane) ageOf(m *types.Message, now task.Instant) time.Duration {
	millis, err := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	if err != nil {
		return 0
	}
	return max(0, now.Sub(task.FromMillis(millis)))
}

// countOf is how often a message was received, this time included.
func countOf(m *types.Message) int {
	n, err := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])
	if err != nil {
		return 1
	}
	return n
}

// endPolls gives up all polls. Those that have just begun get a moment, since SQS may be answering them.
func (d *Driver) endPolls() {
	now, youngest := d.Clock.Now(), task.Instant(0)
	d.mu.Lock()
	for _, l := range d.lanes {
		l.polls.mu.Lock()
		for poll := range l.polls.going {
			youngest = max(youngest, poll.began)
		}
		l.polls.mu.Unlock()
	}
	d.mu.Unlock()
	if wait := youngest.Add(d.CloseGrace).Sub(now); youngest > 0 && wait > 0 {
		_ = clock.Sleep(d.ctx, d.Clock, wait)
	}
	d.endPolling()
}

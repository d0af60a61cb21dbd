package sqs

import (
	"errors"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// pollBackoffMin and pollBackoffMax are the longest waits after the first and after many failed polls.
	pollBackoffMin = 200 * time.Millisecond
	pollBackoffMax = 10 * time.Second
	// newerDelay is how long a message of a newer format is left to others, unknownDelay one of a lambda that
	// is not known here; after unknownTriesMax deliveries such a lambda is taken for gone.
	newerDelay      = 30 * time.Second
	unknownDelay    = 5 * time.Second
	unknownTriesMax = 5
	// deliveryDelay is how long a message that is for a consumer outside is left to it.
	deliveryDelay = 15 * time.Minute
)

// Reasons of messages that come to nothing.
const (
	DiscardUndecodable = "undecodable"    // not written by Kinesin; deleted
	DiscardDelivery    = "delivery"       // of a deliver lambda that had this queue; left to its consumer
	DiscardNewer       = "newer_format"   // left to a newer process
	DiscardUnknown     = "unknown_lambda" // of a lambda that is gone: deleted after a while
	DiscardMisplaced   = "misplaced"      // a task of a lambda whose queue is another: deleted
	DiscardDuplicate   = "duplicate"      // a message that is here, or was deleted just now
)

// polls is the demand for a lane's messages and what is done about it.
type polls struct {
	mu       sync.Mutex // guards all below
	running  int
	full     bool // the latest poll brought as many messages as it asked for
	failures int

	tasksPerMessage float64 // of what came lately
}

func (l *lane) isWaitedFor() bool {
	wanted, _ := l.driver.prefetch.wanted(l.key)
	l.polls.mu.Lock()
	defer l.polls.mu.Unlock()
	return wanted > 0 || l.polls.running > 0
}

// missing is how many messages more are wanted than wait here; not positive when nobody waits. The caller
// holds the lock.
func (l *lane) missing() int {
	wanted, waiting := l.driver.prefetch.wanted(l.key)
	if wanted == 0 || l.driver.closed.Load() {
		return 0
	}
	return int(math.Ceil(float64(wanted-waiting) / l.polls.tasksPerMessage))
}

// tend starts polls while they are called for: one, and more of them side by side as long as they come back
// full.
func (l *lane) tend() {
	l.polls.mu.Lock()
	defer l.polls.mu.Unlock()
	for {
		missing := l.missing() - l.polls.running*sqsclient.BatchMax
		if l.polls.running > 0 && (!l.polls.full || missing <= 0 || l.polls.running >= l.driver.PollersMax) {
			return
		}
		if missing <= 0 || !l.driver.work.start(l.poll) {
			return
		}
		l.polls.running++
	}
}

// poll receives until nothing more is called for. A poll that is on its way is not cut short while the driver
// is open: what it had found would be hidden from everyone for the visibility timeout.
func (l *lane) poll() {
	d := l.driver
	for {
		l.polls.mu.Lock()
		wanted := min(l.missing(), sqsclient.BatchMax)
		if wanted <= 0 || l.polls.running > 1 && !l.polls.full {
			l.polls.running--
			l.polls.mu.Unlock()
			return
		}
		l.polls.mu.Unlock()

		received, err := d.client.Receive(d.open, l.name, sqsclient.Poll{
			Max: wanted, Visibility: d.PollVisibility, Attributes: []string{AttributeTaskID}, // which only deliveries have
		})
		tasks := l.accept(received)

		l.polls.mu.Lock()
		l.polls.full = err == nil && len(received) >= wanted
		pause := time.Duration(0)
		switch {
		case err != nil:
			pause = l.failed(err)
		case l.polls.failures > 0:
			l.recovered()
		case tasks > 1 && !l.polls.full: // the next poll will bring several as well
			pause = d.PollPause
		}
		more := l.polls.full
		l.polls.mu.Unlock()
		if more {
			l.tend()
		}
		if pause > 0 {
			d.client.Rest(d.open, pause)
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

// accept takes in what a poll brought, and says how many tasks that were.
func (l *lane) accept(received []types.Message) (accepted int) {
	d, now, steady := l.driver, l.driver.Clock.Now(), clock.Steady(l.driver.Clock)
	for i := range received {
		m := &received[i]
		tasks := l.open(m, now, steady)
		if len(tasks) == 0 {
			continue
		}
		accepted += len(tasks)
		here := &held{lane: l, id: l.idOf(m), handle: aws.ToString(m.ReceiptHandle), received: steady, renew: steady.Add(d.PollVisibility / 2)}
		if !d.prefetch.add(here, tasks, sqsclient.Receives(m) > 1, now) {
			l.returns.add([]sqsclient.Hidden{{Receipt: here.handle}}, 0, false)
			d.client.Observer.Returned(l.name, len(tasks), 0)
		}
	}
	if accepted > 0 {
		d.handOut(now)
	}
	return accepted
}

// idOf tells a message from all others here.
func (l *lane) idOf(m *types.Message) string { return l.name + "/" + aws.ToString(m.MessageId) }

// open returns the tasks of a message, or none after doing what is to be done with it.
func (l *lane) open(m *types.Message, now, steady task.Instant) []task.Task {
	d := l.driver
	switch d.prefetch.meet(l.idOf(m), aws.ToString(m.ReceiptHandle), steady.Add(d.PollVisibility/2)) {
	case metHere:
		d.client.Observer.Discarded(l.name, DiscardDuplicate)
		return nil
	case metDeleted:
		l.discard(m, DiscardDuplicate)
		return nil
	case metNever:
	}
	tasks, err := d.Codec.decodeBody(aws.ToString(m.Body))
	if err != nil {
		l.refuse(m, err)
		return nil
	}
	l.depths.received(steady, l.ageOf(m, now), len(tasks))
	l.noteSize(len(tasks))
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

// discard deletes a message that is of no use to anybody.
func (l *lane) discard(m *types.Message, reason string) {
	l.driver.client.Observer.Discarded(l.name, reason)
	l.deletes.add([]string{aws.ToString(m.ReceiptHandle)}, l.driver.DeleteLinger, true)
}

// leave hides a message that is for others.
func (l *lane) leave(m *types.Message, reason string, after time.Duration) {
	l.driver.client.Observer.Discarded(l.name, reason)
	l.returns.add([]sqsclient.Hidden{{Receipt: aws.ToString(m.ReceiptHandle), For: after}}, l.driver.DeleteLinger, true)
}

// refuse is what becomes of a message that cannot be read. A delivery is somebody's data, and there because a
// deliver lambda of this name was: it is never deleted.
func (l *lane) refuse(m *types.Message, err error) {
	l.driver.Log.WarnContext(l.driver.ctx, "message cannot be read", slog.String("queue", l.name),
		slog.String("message_id", aws.ToString(m.MessageId)), slog.Any("error", err))
	_, isDelivery := m.MessageAttributes[AttributeTaskID]
	switch {
	case errors.Is(err, errEnvelopeVersion):
		l.leave(m, DiscardNewer, newerDelay)
	case isDelivery:
		l.leave(m, DiscardDelivery, deliveryDelay)
	default:
		l.discard(m, DiscardUndecodable)
	}
}

// isHome reports whether a task's lambda has this queue. If not, the message is sent away. A lambda that is
// not known may have been created elsewhere a moment ago, or is gone; its name, and so its queue, may be
// another lambda's by now.
func (l *lane) isHome(m *types.Message, key laneKey) bool {
	name, _, err := l.driver.queueName(key)
	switch {
	case err == nil && name == l.name:
		return true
	case err != nil && sqsclient.Receives(m) <= unknownTriesMax:
		l.leave(m, DiscardUnknown, unknownDelay)
	case err != nil:
		l.discard(m, DiscardUnknown)
	default:
		l.discard(m, DiscardMisplaced)
	}
	return false
}

// noteSize follows how many tasks a message has.
func (l *lane) noteSize(tasks int) {
	l.polls.mu.Lock()
	defer l.polls.mu.Unlock()
	l.polls.tasksPerMessage += (float64(tasks) - l.polls.tasksPerMessage) / 8
}

// ageOf is how long a message was in its queue. Its time is SQS's, ours may differ; SQS's delay is not
// counted out.
func (l *lane) ageOf(m *types.Message, now task.Instant) time.Duration {
	millis, err := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	if err != nil {
		return 0
	}
	return max(0, now.Sub(task.FromMillis(millis)))
}

package sqs

import (
	"errors"
	"log/slog"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// newerDelay hides a message of a newer format, so that newer processes get it.
	newerDelay = 30 * time.Second
	// unknownDelay hides a message of a lambda that this process does not know. After unknownTriesMax
	// deliveries the lambda is taken to be deleted.
	unknownDelay    = 5 * time.Second
	unknownTriesMax = 5
	// unsealedTriesMax is after how many deliveries an unsealed message is deleted. A redrive policy, which
	// can count no further than that, has moved it to a dead-letter queue before, if there is one.
	unsealedTriesMax = 1000
	// deliveryDelay hides a message that is for a consumer outside Kinesin.
	deliveryDelay = 15 * time.Minute
)

// Reasons why a received message is discarded.
const (
	DiscardUnsealed    = "unsealed"       // not sealed by this installation; left, for a dead-letter queue
	DiscardKeyGone     = "rotated_key"    // sealed with a key that was rotated out; left, as an unsealed one
	DiscardUndecodable = "undecodable"    // sealed, and not readable; deleted
	DiscardDelivery    = "delivery"       // for the consumer of a deliver lambda that had this queue; hidden
	DiscardNewer       = "newer_format"   // for a newer process; hidden
	DiscardUnknown     = "unknown_lambda" // of a lambda that is not known; hidden, and deleted in the end
	DiscardMisplaced   = "misplaced"      // a task of a lambda with another queue; deleted
	DiscardDuplicate   = "duplicate"      // of a message that is prefetched already
)

// open returns the tasks of a received message; none after it discarded the message.
func (l *lane) open(m *types.Message, now, steady task.Instant) []task.Task {
	d := l.driver
	if d.prefetch.redelivered(l.idOf(m), aws.ToString(m.ReceiptHandle), steady.Add(pollVisibility/2)) {
		d.client.Observer.Discarded(l.name, DiscardDuplicate)
		return nil
	}
	tasks, err := d.Codec.decodeBody(d.ctx, d.sealer, l.name, aws.ToString(m.Body))
	if err != nil {
		l.discardUnreadable(m, err)
		return nil
	}
	l.depths.received(steady, ageOf(m, now), len(tasks))
	l.noteTasks(len(tasks))
	if !l.checkLambda(m, keyOf(queue.NameFor(&tasks[0]))) { // all tasks of a message are of one lane
		return nil
	}
	return tasks
}

// idOf returns an id that is unique in this process.
func (l *lane) idOf(m *types.Message) string { return l.name + "/" + aws.ToString(m.MessageId) }

// noteTasks updates the average number of tasks in a message.
func (l *lane) noteTasks(tasks int) {
	l.polls.mu.Lock()
	defer l.polls.mu.Unlock()
	l.polls.tasksPerMessage += (float64(tasks) - l.polls.tasksPerMessage) / 8
}

// discard deletes a message that is of no use to anybody.
func (l *lane) discard(m *types.Message, reason string) {
	l.driver.client.Observer.Discarded(l.name, reason)
	l.deletes.Put(aws.ToString(m.ReceiptHandle))
}

// leave hides a message that is for others.
func (l *lane) leave(m *types.Message, reason string, d time.Duration) {
	l.driver.client.Observer.Discarded(l.name, reason)
	l.hides.Put(sqsclient.Hidden{Receipt: aws.ToString(m.ReceiptHandle), For: d})
}

// discardUnreadable discards a message that cannot be decoded. It never deletes a delivery: that is a user's
// data, from a deliver lambda that had this queue.
func (l *lane) discardUnreadable(m *types.Message, err error) {
	l.driver.Log.WarnContext(l.driver.ctx, "message cannot be decoded", slog.String("queue", l.name),
		slog.String("message_id", aws.ToString(m.MessageId)), slog.Any("error", err))
	unsealed := DiscardUnsealed
	if errors.Is(err, task.ErrKeyGone) {
		unsealed = DiscardKeyGone
	}
	_, isDelivery := m.MessageAttributes[AttributeTaskID]
	switch {
	case errors.Is(err, errEnvelopeVersion):
		l.leave(m, DiscardNewer, newerDelay)
	case isDelivery:
		l.leave(m, DiscardDelivery, deliveryDelay)
	case errors.Is(err, errUnsealed) && sqsclient.Receives(m) <= unsealedTriesMax:
		l.driver.client.Observer.Discarded(l.name, unsealed)
	case errors.Is(err, errUnsealed):
		l.discard(m, unsealed)
	default:
		l.discard(m, DiscardUndecodable)
	}
}

// checkLambda reports whether the lambda of a task has this queue, and discards the message otherwise. A
// lambda that is not known was created elsewhere a moment ago, or deleted; another one may have its name
// and queue.
func (l *lane) checkLambda(m *types.Message, key laneKey) bool {
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

// ageOf returns how long a message was in its queue, delays included. SQS's clock and ours may differ.
func ageOf(m *types.Message, now task.Instant) time.Duration {
	millis, err := strconv.ParseInt(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)], 10, 64)
	if err != nil {
		return 0
	}
	return max(0, now.Sub(task.FromMillis(millis)))
}

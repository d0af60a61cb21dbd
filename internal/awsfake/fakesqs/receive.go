package fakesqs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/task"
)

// ReceiveMessage is the client's method.
func (s *SQS) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, options ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	return awsfake.Do(ctx, s.service, "ReceiveMessage", retryer(options), func() (*sqs.ReceiveMessageOutput, error) {
		p, err := s.newPoll(in)
		if err != nil {
			return nil, err
		}
		for {
			out, wait, err := p.look()
			if out != nil || err != nil {
				return out, err
			}
			if err := p.wait(ctx, wait); err != nil {
				return nil, err
			}
		}
	})
}

// poll executes one ReceiveMessage.
type poll struct {
	sqs        *SQS
	in         *sqs.ReceiveMessageInput
	limit      int
	long       bool
	until      task.Instant
	visibility time.Duration
	woken      chan struct{} // of the queue, taken under the lock
}

func (s *SQS) newPoll(in *sqs.ReceiveMessageInput) (*poll, error) {
	if err := awsfake.Only(in, "QueueUrl", "MaxNumberOfMessages", "MessageAttributeNames", "MessageSystemAttributeNames",
		"VisibilityTimeout", "WaitTimeSeconds"); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock.Now()
	q, err := s.queue(in.QueueUrl, now)
	if err != nil {
		return nil, err
	}
	switch {
	case in.MaxNumberOfMessages < 0 || in.MaxNumberOfMessages > batchEntriesMax:
		return nil, invalidValue("Value %d for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided.", in.MaxNumberOfMessages)
	case in.WaitTimeSeconds < 0 || in.WaitTimeSeconds > waitSecondsMax:
		return nil, invalidValue("Value %d for parameter WaitTimeSeconds is invalid. Reason: Must be >= 0 and <= 20, if provided.", in.WaitTimeSeconds)
	case in.VisibilityTimeout < 0 || time.Duration(in.VisibilityTimeout)*time.Second > visibilityMax:
		return nil, invalidValue("Value %d for parameter VisibilityTimeout is invalid. Reason: Must be between 0 and 43200, if provided.", in.VisibilityTimeout)
	}
	// The SDK leaves out a zero, so the setting of the queue holds then.
	wait := cmp.Or(time.Duration(in.WaitTimeSeconds)*time.Second, q.seconds(types.QueueAttributeNameReceiveMessageWaitTimeSeconds))
	return &poll{
		sqs: s, in: in, limit: int(cmp.Or(in.MaxNumberOfMessages, 1)), long: wait > 0, until: now.Add(wait),
		visibility: cmp.Or(time.Duration(in.VisibilityTimeout)*time.Second, q.seconds(types.QueueAttributeNameVisibilityTimeout)),
	}, nil
}

// look returns the answer, or how long to wait before there can be one.
func (p *poll) look() (*sqs.ReceiveMessageOutput, time.Duration, error) {
	s := p.sqs
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Clock.Now()
	q, err := s.queue(p.in.QueueUrl, now)
	if err != nil {
		return nil, 0, err
	}
	isFull := q.counts[inFlight] >= s.cfg.InFlightMax
	if isFull && !p.long {
		return nil, 0, &types.OverLimit{Message: aws.String("Too many messages in flight.")}
	}
	if !isFull && q.visible.Len() > 0 && (p.long || !s.Faults.Strikes("ReceiveMessage", Sampled)) {
		if taken := q.take(now, min(p.limit, s.cfg.InFlightMax-q.counts[inFlight]), p.visibility); len(taken) > 0 {
			return p.answer(taken), 0, nil
		}
	}
	if now >= p.until {
		return &sqs.ReceiveMessageOutput{}, 0, nil
	}
	p.woken = q.woken
	wait := p.until.Sub(now)
	if h, found := q.hidden.Min(); found {
		wait = min(wait, max(h.at.Sub(now), time.Microsecond))
	}
	return nil, wait, nil
}

// wait returns when the poll has to look again, or with an error when ctx ends.
func (p *poll) wait(ctx context.Context, wait time.Duration) error {
	timer := p.sqs.cfg.Clock.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-p.woken:
		return nil
	case <-ctx.Done():
	}
	p.abandon()
	return &aws.RequestCanceledError{Err: ctx.Err()}
}

// abandon leaves a ghost of the poll at the service.
func (p *poll) abandon() {
	s := p.sqs
	if !s.Faults.Strikes("ReceiveMessage", Abandoned) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if q, err := s.queue(p.in.QueueUrl, s.cfg.Clock.Now()); err == nil {
		q.ghosts = append(q.ghosts, ghost{p.until, p.limit, p.visibility})
	}
}

// take delivers messages: it hides them, and moves those that were received too often to the dead-letter
// queue instead.
func (q *queue) take(now task.Instant, limit int, visibility time.Duration) []*message {
	var taken []*message
	for _, m := range q.pick(limit) {
		if dead, most := q.redrive(); dead != nil && m.received >= most {
			q.bury(m, dead)
			continue
		}
		m.received++
		m.last = now
		q.handles++
		m.handle = fmt.Sprintf("%s/%s/%d", q.name, m.id, q.handles)
		if visibility > 0 && (q.isFIFO() || !q.sqs.Faults.Strikes("ReceiveMessage", Twice)) {
			q.hide(m, now.Add(visibility))
		}
		taken = append(taken, m)
	}
	return taken
}

// pick returns the next messages, in order of arrival unless Reordered strikes.
func (q *queue) pick(limit int) []*message {
	if q.isFIFO() {
		return q.pickInOrder(limit)
	}
	look := limit
	reordered := q.sqs.Faults.Strikes("ReceiveMessage", Reordered)
	if reordered {
		look = 10 * limit
	}
	var all []*message
	q.visible.Ascend(func(m *message) bool {
		all = append(all, m)
		return len(all) < look
	})
	if reordered {
		for i := len(all) - 1; i > 0; i-- {
			j := q.sqs.Faults.Pick(i + 1)
			all[i], all[j] = all[j], all[i]
		}
	}
	return all[:min(limit, len(all))]
}

// pickInOrder returns the next messages of a FIFO queue, none of a group of which messages are in flight.
func (q *queue) pickInOrder(limit int) []*message {
	blocked := map[string]bool{}
	q.hidden.Ascend(func(h hiding) bool {
		blocked[h.message.group] = true
		return true
	})
	var all []*message
	q.visible.Ascend(func(m *message) bool {
		if !blocked[m.group] {
			all = append(all, m)
		}
		return len(all) < limit
	})
	return all
}

type redrivePolicy struct {
	Target string `json:"deadLetterTargetArn"`
	// Most is a number or a number in quotes.
	Most json.RawMessage `json:"maxReceiveCount"`
}

// redrive returns the queue's dead-letter queue, nil when it has none, and how often a message is received
// before it goes there.
func (q *queue) redrive() (dead *queue, most int) {
	policy, err := parseRedrive(q.settings[string(types.QueueAttributeNameRedrivePolicy)])
	if err != nil {
		return nil, 0
	}
	most, _ = strconv.Atoi(strings.Trim(string(policy.Most), `"`))
	return q.sqs.queues[policy.Target[strings.LastIndex(policy.Target, ":")+1:]], most
}

func parseRedrive(text string) (redrivePolicy, error) {
	var p redrivePolicy
	if text == "" {
		return p, errors.New("no redrive policy")
	}
	return p, json.Unmarshal([]byte(text), &p)
}

// bury moves a message to the dead-letter queue, where it keeps its age and its count of receives.
func (q *queue) bury(m *message, dead *queue) {
	now, sent := q.sqs.cfg.Clock.Now(), m.sent
	q.move(m, gone)
	m.handle = ""
	dead.add(m, now, 0)
	m.sent = sent
}

// answer returns messages in the form that the caller asked for.
func (p *poll) answer(taken []*message) *sqs.ReceiveMessageOutput {
	out := &sqs.ReceiveMessageOutput{}
	for _, m := range taken {
		shown := types.Message{
			MessageId: aws.String(m.id), ReceiptHandle: aws.String(m.handle), Body: aws.String(m.body), MD5OfBody: m.md5(),
			Attributes: m.systemAttributes(p.in.MessageSystemAttributeNames),
		}
		for name, v := range copyAttributes(m.attributes) {
			if slices.Contains(p.in.MessageAttributeNames, "All") || slices.Contains(p.in.MessageAttributeNames, name) {
				if shown.MessageAttributes == nil {
					shown.MessageAttributes = map[string]types.MessageAttributeValue{}
				}
				shown.MessageAttributes[name] = v
			}
		}
		out.Messages = append(out.Messages, shown)
	}
	return out
}

func (m *message) systemAttributes(want []types.MessageSystemAttributeName) map[string]string {
	all := map[types.MessageSystemAttributeName]string{
		types.MessageSystemAttributeNameSentTimestamp:           strconv.FormatInt(m.sent.Time().UnixMilli(), 10),
		types.MessageSystemAttributeNameApproximateReceiveCount: strconv.Itoa(m.received),
	}
	if m.group != "" {
		all[types.MessageSystemAttributeNameMessageGroupId] = m.group
	}
	var out map[string]string
	for name, v := range all {
		if slices.Contains(want, name) {
			if out == nil {
				out = map[string]string{}
			}
			out[string(name)] = v
		}
	}
	return out
}

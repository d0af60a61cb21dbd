// Package deadletter serves the DeadLetterService of the wire contract: the SQS dead-letter queues of
// deliver lambdas. Their messages are no tasks any more, so nothing here touches the store. It keeps no
// state: a redrive is a job of SQS, or goes on for as long as its caller calls.
package deadletter

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// Limits of a call.
const (
	ListDefault     = 100
	ListMax         = 1000
	PayloadBytesMax = 4 << 20 // of the payloads of a list, before the last of them
	stepFor         = 3 * time.Second
)

// Actions of ChangeDeadLetters, and what became of messages.
const (
	ActionRedrive   = "redrive"
	ActionDelete    = "delete"
	outcomeRedriven = "redriven"
	outcomeDeleted  = "deleted"
)

// Config is what a Service is made of.
type Config struct {
	Queue *queue.Queue
	// Lambda returns a lambda by its name; catalog.ErrUnknown if there is none.
	Lambda func(ctx context.Context, name string) (*catalog.Entry, error)
	// LambdaOf returns the name of the lambda of a public id; an error for one that was not issued here.
	LambdaOf func(ctx context.Context, id string) (string, error)
	Clock    clock.Clock
}

// Service serves the DeadLetterService.
type Service struct{ Config }

// New returns a Service.
func New(c Config) *Service { return &Service{c} }

// ListDeadLetters implements the procedure.
func (s *Service) ListDeadLetters(ctx context.Context, r *kinesinv1.ListDeadLettersRequest) (*kinesinv1.ListDeadLettersResponse, error) {
	if r.Limit > ListMax {
		return nil, refusal.Invalid("limit %d: want 0 (which means %d) to %d", r.Limit, ListDefault, ListMax)
	}
	d, queues, err := s.find(ctx, r.Lambda, r.Priority)
	if err != nil {
		return nil, err
	}
	left, bytesLeft := cmp.Or(int(r.Limit), ListDefault), 0
	if r.Payload {
		bytesLeft = PayloadBytesMax
	}
	response := &kinesinv1.ListDeadLettersResponse{}
	for i := range queues {
		if response.More {
			break
		}
		letters, err := d.PeekDeadLetters(ctx, &queues[i], left, bytesLeft)
		if err != nil {
			return nil, wire(err)
		}
		for k := range letters {
			response.Messages = append(response.Messages, s.view(ctx, r, queues[i].Priority, &letters[k]))
			bytesLeft -= len(letters[k].Payload)
		}
		left -= len(letters)
		response.More = left <= 0 || r.Payload && bytesLeft <= 0
	}
	return response, nil
}

// view believes the id of a message only if it was issued here for a task of this lambda.
func (s *Service) view(ctx context.Context, r *kinesinv1.ListDeadLettersRequest, priority string, l *queue.DeadLetter) *kinesinv1.DeadLetter {
	v := &kinesinv1.DeadLetter{
		Id: l.MessageID, MessageId: l.MessageID, Priority: priority, Sent: int64(l.Sent), Receives: uint32(l.Receives), PayloadBytes: uint32(l.PayloadBytes), Payload: l.Payload,
	}
	if lambda, err := s.LambdaOf(ctx, l.TaskID); l.TaskID != "" && err == nil && lambda == r.Lambda {
		v.Id, v.Due = l.TaskID, int64(l.Due)
	}
	return v
}

// CountDeadLetters implements the procedure.
func (s *Service) CountDeadLetters(ctx context.Context, r *kinesinv1.CountDeadLettersRequest) (*kinesinv1.CountDeadLettersResponse, error) {
	d, queues, err := s.find(ctx, r.Lambda, r.Priority)
	if err != nil {
		return nil, err
	}
	response := &kinesinv1.CountDeadLettersResponse{}
	for i := range queues {
		n, latest, err := d.CountDeadLetters(ctx, &queues[i])
		if err != nil {
			return nil, wire(err)
		}
		v := viewOf(&queues[i], latest)
		v.Count = int64(n)
		response.Count += v.Count
		response.Queues = append(response.Queues, v)
	}
	return response, nil
}

func viewOf(q *queue.DeadLetterQueue, m *queue.Move) *kinesinv1.DeadLetterQueue {
	v := &kinesinv1.DeadLetterQueue{Priority: q.Priority, Source: q.Source, Name: q.Name, ReceivesMax: uint32(q.ReceivesMax)}
	if m != nil {
		v.Move = &kinesinv1.DeadLetterMove{State: m.State, Moved: m.Moved, Total: m.Total, Started: int64(m.Started), Problem: m.Problem}
	}
	return v
}

// ChangeDeadLetters implements the procedure.
func (s *Service) ChangeDeadLetters(ctx context.Context, r *kinesinv1.ChangeDeadLettersRequest) (*kinesinv1.ChangeDeadLettersResponse, error) {
	if err := s.check(r); err != nil {
		return nil, err
	}
	d, queues, err := s.find(ctx, r.Lambda, r.Priority)
	if err != nil {
		return nil, err
	}
	c := &change{DeadLetters: d, Service: s, request: r, response: &kinesinv1.ChangeDeadLettersResponse{Outcomes: map[string]int64{}, Began: r.Began}}
	if r.Began == 0 {
		c.response.Began = int64(s.Clock.Now())
	}
	c.until = clock.Mono(s.Clock) + stepFor
	for i := range queues {
		if err := c.one(ctx, &queues[i]); err != nil && len(c.response.Outcomes) == 0 {
			return nil, wire(err)
		} else if err != nil { // the next call fails with it, after this one has told what it did
			c.response.More = true
			break
		}
	}
	return c.response, nil
}

func (s *Service) check(r *kinesinv1.ChangeDeadLettersRequest) error {
	switch now := s.Clock.Now(); {
	case r.Action != ActionRedrive && r.Action != ActionDelete:
		return refusal.Invalid("action %q: want %s or %s", r.Action, ActionRedrive, ActionDelete)
	case r.Pace > queue.DeadLetterPaceMax:
		return refusal.Invalid("pace %d: want 0 (as fast as SQS) to %d messages a second, which is what SQS can", r.Pace, queue.DeadLetterPaceMax)
	case r.Purge && r.Action != ActionDelete:
		return refusal.Invalid("purge is for the action %s", ActionDelete)
	case r.Purge && r.Pace > 0:
		return refusal.Invalid("a purge has no pace: SQS does it at once")
	case r.Began < 0 || r.Began > int64(now):
		return refusal.Invalid("began %d: want that of the answer before, in Unix microseconds, or 0", r.Began)
	}
	return nil
}

// change is one call that changes dead letters.
type change struct {
	queue.DeadLetters
	*Service

	request  *kinesinv1.ChangeDeadLettersRequest
	response *kinesinv1.ChangeDeadLettersResponse
	until    time.Duration // by clock.Mono
}

func (c *change) one(ctx context.Context, q *queue.DeadLetterQueue) error {
	switch {
	case c.request.Purge:
		return c.purge(ctx, q)
	case c.request.Action == ActionDelete:
		return c.step(ctx, q, outcomeDeleted)
	case c.request.Began > 0: // the service has no moves, or the call before would not have said more
		return c.step(ctx, q, outcomeRedriven)
	}
	m, err := c.MoveDeadLetters(ctx, q, int(c.request.Pace))
	if errors.Is(err, queue.ErrNoMoves) {
		return c.step(ctx, q, outcomeRedriven)
	} else if err != nil {
		return err
	}
	c.response.Queues = append(c.response.Queues, viewOf(q, &m))
	return nil
}

func (c *change) purge(ctx context.Context, q *queue.DeadLetterQueue) error {
	n, _, err := c.DeadLetters.CountDeadLetters(ctx, q)
	if err == nil {
		err = c.PurgeDeadLetters(ctx, q)
	}
	if err == nil {
		c.response.Outcomes[outcomeDeleted] += int64(n)
	}
	return err
}

func (c *change) step(ctx context.Context, q *queue.DeadLetterQueue, outcome string) error {
	left := c.until - clock.Mono(c.Clock)
	if left <= 0 {
		c.response.More = true
		return nil
	}
	n, more, err := c.DeadLetters.ChangeDeadLetters(ctx, q, queue.DeadLetterStep{
		Redrive: outcome == outcomeRedriven, Before: task.Instant(c.response.Began), Pace: int(c.request.Pace), For: left,
	})
	if n > 0 {
		c.response.Outcomes[outcome] += int64(n)
	}
	c.response.More = c.response.More || more
	return err
}

// find returns the dead-letter queues of a lambda in the order of its priorities, or of one priority.
func (s *Service) find(ctx context.Context, lambda, priority string) (queue.DeadLetters, []queue.DeadLetterQueue, error) {
	l, err := s.Lambda(ctx, lambda)
	if err != nil {
		return nil, nil, refusal.Wire(err)
	}
	if l.Mode != task.Deliver {
		return nil, nil, refusal.Invalid("lambda %s is managed, so its dead letters are tasks that ended as dead: "+
			"select them with the filter lambda=%s and state=dead (--where)", l.Name, l.Name)
	}
	if _, err := l.Priority(priority); err != nil {
		return nil, nil, err
	}
	d, err := s.Queue.DeadLetters()
	if err != nil {
		return nil, nil, refusal.Wire(err)
	}
	var queues []queue.DeadLetterQueue
	for _, p := range l.Priorities {
		if priority != "" && p != priority {
			continue
		}
		q, err := d.FindDeadLetters(ctx, l.Lambda, p)
		if err != nil {
			return nil, nil, wire(err)
		}
		queues = append(queues, q)
	}
	return d, queues, nil
}

// reasons are those of the errors that only dead-letter queues have, or that mean something else here.
var reasons = []struct {
	err    error
	reason kinesinv1.Reason
}{
	{queue.ErrNoDeadLetters, kinesinv1.Reason_REASON_NOT_FOUND},
	{queue.ErrMissing, kinesinv1.Reason_REASON_NOT_FOUND},
	{queue.ErrDenied, kinesinv1.Reason_REASON_UNSUPPORTED},
	{queue.ErrPurging, kinesinv1.Reason_REASON_IN_USE},
}

func wire(err error) error {
	for _, r := range reasons {
		if errors.Is(err, r.err) {
			return &api.Error{Reason: r.reason, Text: err.Error()}
		}
	}
	return refusal.Wire(err)
}

package hsc

import (
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/task"
)

// snoozeMax caps the delay a handler may ask for.
const snoozeMax = 10 * 365 * 24 * time.Hour

// outcomes has the outcomes that a worker may report, by name.
var outcomes = map[string]task.Outcome{
	task.OutcomeSuccess.String():   task.OutcomeSuccess,
	task.OutcomeRetriable.String(): task.OutcomeRetriable,
	task.OutcomeFatal.String():     task.OutcomeFatal,
	task.OutcomeSnoozed.String():   task.OutcomeSnoozed,
	task.OutcomeReleased.String():  task.OutcomeReleased,
	task.OutcomeCancelled.String(): task.OutcomeCancelled,
}

// wireClaimed returns a claimed task as the worker gets it. Hold is the instant until which to hold it,
// until hold makes it the time that is left.
func (s *Service) wireClaimed(t *task.Task, l *catalog.Entry, payload []byte, parent *kinesinv1.Parent) *kinesinv1.Claimed {
	if payload == nil {
		payload = t.Payload
	}
	policy, id := l.PolicyFor(t), t.ID
	c := &kinesinv1.Claimed{
		Task:        id[:],
		Id:          s.Sealer.SealTask(t),
		Lambda:      l.Name,
		Collection:  t.Collection,
		Key:         t.Key,
		Attempt:     t.Attempt,
		Failures:    t.Failures,
		MaxAttempts: policy.MaxAttempts,
		WorkerLost:  t.Lost,
		Due:         int64(t.Due),
		Hold:        int64(t.HeldUntil()),
		Created:     int64(t.Created),
		Timeout:     policy.Timeout.Microseconds(),
		Payload:     payload,
		Blob:        api.WireBlob(t.Blob),
		Traceparent: s.traceparent(t),
		Tags:        task.TagValues(t.Tags),
		Prompt:      s.isAwaited(t),
		Occurrence:  api.WireOccurrence(t.Occurrence),
		Member:      api.WireMember(t.Member),
		Group:       api.WireGroupEnd(t.GroupEnd),
	}
	if t.Chain != nil {
		c.Parent, c.Chain = parent, s.Sealer.Seal(t.RootLink().Token())
	}
	if p := int(t.Partition.Priority); p < len(l.Priorities) {
		c.Priority = l.Priorities[p]
	}
	return c
}

// traceparent returns the trace context for the handler of a claimed task.
func (s *Service) traceparent(t *task.Task) string {
	if s.Traceparent == nil {
		return t.Traceparent
	}
	return s.Traceparent(t)
}

// isAwaited reports whether something waits for the end of a task: tasks behind a limit, a group, or what
// follows it.
func (s *Service) isAwaited(t *task.Task) bool {
	return t.Member != nil || t.HasFollowups() || s.Limited != nil && s.Limited(t.Partition.Lambda)
}

// hold sets how long the worker must wait from receipt. It is called as late as possible.
func hold(c *kinesinv1.Claimed, now task.Instant) { c.Hold = max(0, c.Hold-int64(now)) }

func idOf(raw []byte) (id task.ID, ok bool) {
	return id, copy(id[:], raw) == len(id) && len(raw) == len(id)
}

func wireHeld(a attempt) *kinesinv1.Held {
	return &kinesinv1.Held{Task: a.id[:], Attempt: a.number}
}

// attemptsOf returns the attempts that a worker names, without malformed task ids.
func attemptsOf(held []*kinesinv1.Held) []attempt {
	attempts := make([]attempt, 0, len(held))
	for _, h := range held {
		if id, ok := idOf(h.GetTask()); ok {
			attempts = append(attempts, attempt{id, h.GetAttempt()})
		}
	}
	return attempts
}

func wireAck(a attempt, p *kinesinv1.Problem) *kinesinv1.ResultAck {
	return &kinesinv1.ResultAck{Task: a.id[:], Attempt: a.number, Problem: p}
}

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
	c := api.WireClaimed(t, l.PolicyFor(t))
	c.Id, c.Lambda, c.Payload, c.Prompt = s.Sealer.SealTask(t), l.Name, payload, s.isAwaited(t)
	if s.Traceparent != nil {
		c.Traceparent = s.Traceparent(t)
	}
	if t.Chain != nil {
		c.Parent, c.Chain = parent, s.Sealer.Seal(t.RootLink().Token())
	}
	if p := int(t.Partition.Priority); p < len(l.Priorities) {
		c.Priority = l.Priorities[p]
	}
	return c
}

// isAwaited reports whether something waits for the end of a task: tasks behind a limit, a group, or what
// follows it.
func (s *Service) isAwaited(t *task.Task) bool {
	return t.Member != nil || t.HasFollowups() || s.Awaited != nil && s.Awaited(t)
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

package controller

import (
	"fmt"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

func keyOf(id []byte, attempt uint32) (k key, ok bool) {
	k.attempt = attempt
	return k, len(id) == copy(k.task[:], id) && len(id) == len(k.task)
}

func (k key) held() *kinesinv1.Held { return &kinesinv1.Held{Task: k.task[:], Attempt: k.attempt} }

func attemptOf(k key, c *kinesinv1.Claimed, g *group) *attempt {
	return &attempt{
		key: k, prompt: c.GetPrompt(), group: g, due: task.Instant(c.Due),
		work: Work{
			ID: c.Id, Task: k.task, Lambda: c.Lambda, Priority: c.Priority, Collection: c.Collection, Key: c.Key,
			Attempt: int(c.Attempt), Failures: int(c.Failures), MaxAttempts: int(c.MaxAttempts), WorkerLost: int(c.WorkerLost),
			Due: task.Instant(c.Due).Time(), Created: task.Instant(c.Created).Time(),
			Timeout: task.Micros(c.Timeout), Payload: c.Payload,
			Traceparent: c.Traceparent, Tags: c.Tags, Blob: c.Blob, Occurrence: c.Occurrence, Parent: c.Parent, Chain: c.Chain, Member: c.Member, Group: c.Group,
		},
	}
}

// end sets the result of an attempt.
func (a *attempt) end(o Outcome) {
	if n := len(o.Result); n > task.ResultBytesMax {
		o = Outcome{Kind: task.OutcomeRetriable, Error: fmt.Sprintf("the result has %d bytes: at most %d are kept with a task", n, task.ResultBytesMax)}
	}
	a.state = ended
	a.result = &kinesinv1.Result{
		Task: a.key.task[:], Attempt: a.key.attempt, Outcome: o.Kind.String(),
		Error: task.ErrorText(o.Error), Started: int64(a.startedAt), Delay: o.Delay.Microseconds(),
		Result: o.Result, Add: o.Add,
	}
}

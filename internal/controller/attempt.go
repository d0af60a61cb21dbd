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
	return &attempt{key: k, work: c, due: task.Instant(c.Due), timeout: task.Micros(c.Timeout), group: g}
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

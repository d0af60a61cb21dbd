package sim

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/task"
	"github.com/kinesin-io/kinesin/test/checker"
)

// call is an operation on a task's register as its caller saw it: asked for at one time and answered at
// another.
type call struct {
	nonce string // empty: task says which task it is about
	task  string
	from  int64 // nanoseconds of true time
	to    int64 // unanswered: it may have taken effect at any time since, or never
	do    operation
}

// unanswered is the return of a call whose outcome nobody knows.
const unanswered = int64(math.MaxInt64)

// called adds what a client did; it returns now, or never if it was not answered.
func (w *world) called(c call, answered bool) {
	c.to = unanswered
	if answered {
		c.to = time.Now().UnixNano()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, c)
}

// scheduled notes a Schedule for the register.
func (c *client) scheduled(nonce string, from time.Time, r sdk.Result, err error) {
	o := operation{kind: opSchedule, duplicate: r.Duplicate, unknown: err != nil}
	c.w.called(call{nonce: nonce, task: taskOf(r.ID), from: from.UnixNano(), do: o}, err == nil)
}

// look is Get, noted for the register.
func (c *client) look(ctx context.Context, id sdk.ID) (sdk.TaskInfo, error) {
	from := time.Now().UnixNano()
	info, err := c.sdk.Get(ctx, id)
	switch {
	case err == nil:
		if info.WaitsFor.Reason != "" {
			c.w.saw("waits for " + info.WaitsFor.Reason)
		}
		c.w.called(call{task: taskOf(id), from: from, do: operation{kind: opGet, seen: seenIn(&info)}}, true)
	case errors.Is(err, sdk.ErrNotFound):
		c.w.called(call{task: taskOf(id), from: from, do: operation{kind: opGet, absent: true}}, true)
	}
	return info, err
}

// stateOf returns the state of a task in the terms of package task.
func stateOf(info *sdk.TaskInfo) task.State {
	if info.State == sdk.StateAccepted {
		return task.Accepted
	}
	s, _ := task.ParseState(string(info.State)) // Unknown for one that there is not
	return s
}

func seenIn(info *sdk.TaskInfo) snapshot {
	s := snapshot{
		state: stateOf(info), attempt: uint32(info.Attempt), failures: uint32(info.Failures), lost: uint32(info.WorkerLost),
		cancelling: info.CancelRequested,
	}
	for _, a := range info.Attempts {
		if a.Outcome == "success" || a.Outcome == "fatal_failure" {
			s.winner = uint32(a.Number)
		}
	}
	return s
}

// revoke is Cancel, noted for the register.
func (c *client) revoke(ctx context.Context, id sdk.ID) (sdk.CancelOutcome, error) {
	from := time.Now().UnixNano()
	outcome, err := c.sdk.Cancel(ctx, id)
	o := operation{kind: opCancel, outcome: string(outcome)}
	late := errors.Is(err, sdk.ErrTooLate)
	switch {
	case late:
		o.outcome = tooLate
	case err != nil:
		o.unknown = true
	}
	c.w.called(call{task: taskOf(id), from: from, do: o}, err == nil || late)
	return outcome, err
}

// registers sorts what clients and workers did by task. A task is known by its nonce, since the id is not
// known to who was not answered.
func (w *world) registers() map[string][]porcupine.Operation {
	w.mu.Lock()
	calls := append([]call(nil), w.calls...)
	w.mu.Unlock()
	for _, e := range w.history() {
		at := time.UnixMicro(e.At).UnixNano()
		switch e.Kind {
		case checker.Started:
			calls = append(calls, call{nonce: e.Nonce, from: at, to: at, do: operation{kind: opStart, attempt: e.Attempt}})
			for i := range calls { // from now on the results of older attempts change nothing; it keeps the search short
				if r := &calls[i]; r.nonce == e.Nonce && r.do.kind == opResult && r.do.attempt < e.Attempt {
					r.to = min(r.to, at)
				}
			}
		case checker.Ended:
			calls = append(calls, call{nonce: e.Nonce, from: at, to: unanswered, do: operation{kind: opResult, attempt: e.Attempt, outcome: e.Outcome}})
		default: // nothing that a register knows
		}
	}
	nonces, reused := map[string]string{}, map[string]bool{}
	for _, c := range calls {
		if c.nonce != "" && c.task != "" {
			nonces[c.task] = c.nonce
		}
	}
	for id, nonce := range nonces {
		reused[nonce] = w.reused[id]
	}
	byTask := map[string][]porcupine.Operation{}
	for _, c := range calls {
		if c.nonce == "" {
			c.nonce = nonces[c.task]
		}
		if reused[c.nonce] {
			continue
		}
		byTask[c.nonce] = append(byTask[c.nonce], porcupine.Operation{Input: c.do, Call: c.from, Return: c.to})
	}
	return byTask
}

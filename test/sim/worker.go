package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/test/checker"
)

// worker is one life of a worker process.
type worker struct {
	*process

	stop context.CancelFunc
}

// lambda is the one that all tasks are of.
const lambda = "mail"

func (w *world) dial(p *process, opts ...sdk.ClientOption) *sdk.Client {
	opts = append(opts, sdk.WithHTTPClient(&http.Client{Transport: &beats{&link{p, w.any}}}), sdkconfig.WithClock(p.clock), sdk.WithLogger(newLog(p)))
	c, err := sdk.NewClient("http://kinesin", opts...)
	if err != nil {
		panic(err) // of constants
	}
	return c
}

// employ runs a worker in a slot until the run is over: one that ended is started again, as a supervisor
// does.
func (w *world) employ(slot int) {
	for w.ctx.Err() == nil {
		p := w.process(fmt.Sprintf("worker-%d", slot))
		ctx, cancel := context.WithCancel(w.ctx)
		k := &worker{process: p, stop: cancel}
		w.mu.Lock()
		w.workers[slot] = k
		w.mu.Unlock()
		w.trace.note(p.name, "starts as process %d", p.pid)
		sw := sdk.NewWorker(w.dial(p), sdk.Slots(w.plan.Slots), sdk.Lease(w.plan.Lease), sdk.Grace(time.Second), sdk.KillAfter(time.Second),
			sdk.Name(p.name), sdk.ExitWith(func(int) { k.die() }))
		sw.Register(lambda, k.handle)
		if w.plan.changesTasks() {
			sw.Register(draftLambda, k.handleDraft)
		}
		if w.plan.Ticks != nil {
			sw.Register(cronLambda, k.handleTick)
		}
		if w.plan.Graphs != nil {
			sw.Register(graphLambda, k.handleGraph)
		}
		err := sw.Run(ctx)
		w.trace.note(p.name, "has ended: %v", err)
		k.die()
		time.Sleep(time.Second)
	}
}

// die ends the process, with all its handlers.
func (k *worker) die() {
	if !k.isDead() {
		k.kill()
		k.w.event(checker.Event{Kind: checker.Died, PID: k.pid})
	}
	k.stop()
}

var errAgain = errors.New("not this time")

// handle does what the payload says, and tells the history.
func (k *worker) handle(ctx context.Context, t *sdk.Task[[]byte]) error {
	if k.isDead() {
		return errDead
	}
	var work Work
	if err := json.Unmarshal(t.Payload, &work); err != nil {
		return sdk.Fatal(err)
	}
	e := checker.Event{Task: taskOf(t.ID), Nonce: work.Nonce, Attempt: uint32(t.Attempt), PID: k.pid}
	k.tell(e, checker.Started, "")
	outcome, err := k.do(ctx, t, &work)
	k.tell(e, checker.Ended, outcome)
	return err
}

func (k *worker) tell(e checker.Event, kind checker.Kind, outcome string) {
	if k.step(context.Background(), 0) != nil {
		return // what a dead process does has no effect
	}
	e.Kind, e.Outcome = kind, outcome
	k.w.event(e)
}

func (k *worker) do(ctx context.Context, t *sdk.Task[[]byte], work *Work) (outcome string, err error) {
	if work.Poison {
		_ = clock.Sleep(context.Background(), k.clock, work.Takes)
		k.w.saw("outcome " + checker.Poisoned)
		k.die()
		return checker.Poisoned, errDead
	}
	if work.Deaf {
		ctx = context.Background()
	}
	if clock.Sleep(ctx, k.clock, work.Takes) != nil {
		return checker.Obeyed, context.Cause(ctx)
	}
	switch {
	case k.w.snoozes(work):
		return checker.Snooze, sdk.Snooze(time.Second)
	case t.Failures < work.Fails:
		return checker.Fail, errAgain
	case work.Fatal:
		return checker.Fatal, sdk.Fatal(errAgain)
	}
	return checker.OK, nil
}

func (w *world) snoozes(work *Work) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.snoozed[work.Nonce]++
	return w.snoozed[work.Nonce] <= work.Snoozes
}

// taskOf is the task that a public id is of. A request that is repeated because its answer was lost may be
// answered with another public id of the same task, since the id carries the due time (docs/internals/reliability.md).
func taskOf(id sdk.ID) string {
	const form, prefix = len("k1"), len("k1") + 21 // 126 bits of the task's id
	return string(id[min(form, len(id)):min(prefix, len(id))])
}

package inbound

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// WaitLookEveryDefault bounds how often a Wait reads its tasks again, and waitLookMax how long it trusts that
// nothing ended, since a task may end in another process.
const (
	WaitLookEveryDefault = 10 * time.Millisecond
	waitLookMax          = time.Second
)

// Wait answers when all named tasks that exist have ended, or when the time is over.
func (in *Inbound) Wait(ctx context.Context, request *kinesinv1.WaitRequest) (*kinesinv1.GetResponse, error) {
	wait := task.Micros(request.WaitMicros)
	if wait < 0 || wait > WaitMax {
		return nil, refusal.Invalid("wait of %v: a call waits 0s to %v", wait, WaitMax)
	}
	timeout := in.Clock.NewTimer(wait)
	defer timeout.Stop()
	w := newWaiter(in, request.Ids)
	for last := wait == 0; ; {
		ended := in.ends.wait()
		if err := w.look(ctx); err != nil {
			return nil, err
		}
		if len(w.live) == 0 || last {
			return w.response, nil
		}
		var err error
		if last, err = in.waitForEnd(ctx, ended, timeout); err != nil {
			return nil, fmt.Errorf("wait: %w", err)
		}
	}
}

// waitForEnd waits until another look is worth it; last says that it is the last one.
func (in *Inbound) waitForEnd(ctx context.Context, ended <-chan struct{}, timeout clock.Timer) (last bool, err error) {
	again := in.Clock.NewTimer(waitLookMax)
	defer again.Stop()
	select {
	case <-ended:
		return false, clock.Sleep(ctx, in.Clock, in.WaitLookEvery)
	case <-again.C():
		return false, nil
	case <-timeout.C():
	case <-in.draining:
	case <-ctx.Done():
		return true, context.Cause(ctx)
	}
	return true, nil
}

// waiter is the state of a Wait. It reads only live tasks again.
type waiter struct {
	*Inbound
	ids      []string
	live     []int // indexes of ids
	response *kinesinv1.GetResponse
}

func newWaiter(in *Inbound, ids []string) *waiter {
	w := &waiter{Inbound: in, ids: ids, live: make([]int, len(ids)), response: &kinesinv1.GetResponse{}}
	for i := range ids {
		w.live[i] = i
	}
	w.response.Results = make([]*kinesinv1.GetResult, len(ids))
	return w
}

func (w *waiter) look(ctx context.Context) error {
	ids := pick(w.ids, w.live)
	rows, err := w.lookUp(ctx, ids)
	if err != nil {
		return err
	}
	results := w.viewAll(ids, rows)
	live := w.live[:0]
	for k, i := range w.live {
		w.response.Results[i] = results[k]
		if !rows[k].ID.IsZero() && !rows[k].State.IsEnd() {
			live = append(live, i)
		}
	}
	w.live = live
	return nil
}

// endSignal lets calls wait for the end of any task. Telling is free while no call waits.
type endSignal struct {
	waiting atomic.Bool // whether next is to be closed

	mu   sync.Mutex // guards next and orders changes of waiting
	next chan struct{}
}

// wait returns a channel that is closed at the next tell. A caller that waits first and then reads the store
// misses no end, because an end is stored before it is told.
func (e *endSignal) wait() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.waiting.Load() {
		e.next = make(chan struct{})
		e.waiting.Store(true)
	}
	return e.next
}

func (e *endSignal) tell() {
	if !e.waiting.Load() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.waiting.Load() {
		e.waiting.Store(false)
		close(e.next)
	}
}

package inbound

import (
	"context"
	"fmt"
	"slices"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// Wait answers when all named tasks that exist have ended, or when the time is over.
func (in *Inbound) Wait(ctx context.Context, request *kinesinv1.WaitRequest) (*kinesinv1.GetResponse, error) {
	wait := task.Micros(request.Wait)
	if wait < 0 || wait > WaitMax {
		return nil, refusal.Invalid("wait of %v: a call waits 0s to %v", wait, WaitMax)
	}
	ids, err := in.withKeys(ctx, request.Ids, request.Keys)
	if err != nil {
		return nil, err
	}
	w := in.newWaiter(ctx, ids)
	if wait > 0 {
		if err := in.Waits.enter(access.From(ctx), &w.waitCall); err != nil {
			return nil, err
		}
		defer in.Waits.leave(&w.waitCall)
	}
	timeout, again := in.Callers.NewTimer(wait), in.Callers.NewTimer(in.Waits.pause())
	defer timeout.Stop()
	defer again.Stop()
	for some, last := w.allLive(), wait == 0; ; {
		if err := w.look(ctx, some, last); err != nil {
			return nil, err
		}
		if w.living == 0 || last {
			return w.response, nil
		}
		var err error
		if some, last, err = w.next(ctx, timeout, again); err != nil {
			return nil, fmt.Errorf("wait: %w", err)
		}
	}
}

// waiter is the state of a Wait.
type waiter struct {
	*Inbound
	waitCall

	ids      []string
	live     []bool // of ids
	living   int
	room     int // for results, in bytes
	response *kinesinv1.GetResponse
}

func (in *Inbound) newWaiter(ctx context.Context, ids []string) *waiter {
	w := &waiter{Inbound: in, ids: ids, live: make([]bool, len(ids)), living: len(ids), room: ResultsBytesMax, response: &kinesinv1.GetResponse{}}
	w.response.Results = make([]*kinesinv1.GetResult, len(ids))
	w.init(len(ids))
	for i, id := range ids {
		w.live[i] = true
		if token, err := in.Open(ctx, id); err == nil {
			w.add(token.ID, i)
		}
	}
	return w
}

// allLive returns the indexes of the ids whose tasks may live.
func (w *waiter) allLive() []int {
	all := make([]int, 0, w.living)
	for i, lives := range w.live {
		if lives {
			all = append(all, i)
		}
	}
	return all
}

// next waits until another look at some tasks is worth it; last says that it is the last one, at all.
func (w *waiter) next(ctx context.Context, timeout, again clock.Timer) (some []int, last bool, err error) {
	select {
	case <-w.told:
		err = clock.Sleep(ctx, w.Clock, w.WaitLookEvery) // others may end with it
		ended := slices.DeleteFunc(w.Waits.take(&w.waitCall), func(i int) bool { return !w.live[i] })
		return ended, false, err
	case <-again.C():
		again.Reset(w.Waits.pause())
		return w.allLive(), false, nil
	case <-timeout.C():
	case <-w.draining:
	case <-ctx.Done():
		return nil, true, context.Cause(ctx)
	}
	return w.allLive(), true, nil
}

// look reads some tasks, and answers for those that have ended; the last time for all.
func (w *waiter) look(ctx context.Context, some []int, last bool) error {
	if len(some) == 0 {
		return nil
	}
	ids := pick(w.ids, some)
	rows, err := w.lookUp(ctx, ids)
	if err != nil {
		return err
	}
	for k, i := range some {
		lives := !rows[k].ID.IsZero() && !rows[k].State.IsEnd()
		if !w.live[i] || lives && !last {
			continue
		}
		w.response.Results[i] = w.viewOf(ids[k], &rows[k], &w.room)
		if !lives {
			w.live[i] = false
			w.living--
		}
	}
	return nil
}

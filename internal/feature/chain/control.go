package chain

import (
	"context"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// changesMax is how many tasks are changed in one call of the TaskService.
const changesMax = 500

var (
	errTooLarge = api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED, "the chain has more than %d tasks: change them as a set, with a job", tasksMax)
	errGoesOn   = api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the chain goes on faster than it is changed; try again")
)

// ControlChain changes the tasks of a chain that are there.
func (s *Service) ControlChain(ctx context.Context, r *kinesinv1.ControlChainRequest) (*kinesinv1.ControlChainResponse, error) {
	act := map[string]func(context.Context, *kinesinv1.ControlChainRequest, []*node, *kinesinv1.ControlChainResponse) (bool, error){
		"cancel": s.cancel, "pause": s.pause, "resume": s.resume, "redrive": s.redrive, "extend": s.extend,
	}[r.GetAction()]
	if act == nil {
		return nil, refusal.Invalid("action %q: want cancel, pause, resume, redrive or extend", r.GetAction())
	}
	switch extends := r.GetAction() == "extend"; {
	case extends && r.GetStartBefore() == 0:
		return nil, refusal.Invalid("start before is missing: want a time to come")
	case !extends && r.GetStartBefore() != 0:
		return nil, refusal.Invalid("start before goes with action extend, and with no other")
	}
	response := &kinesinv1.ControlChainResponse{}
	// A task may end while the chain is gone over, and the next one be there. So it is gone over until there
	// was nothing left to do.
	for range passesMax {
		root, public, err := s.rootOf(ctx, r.GetId())
		if err != nil {
			return nil, refusal.Wire(err)
		}
		response.Id = public
		first, whole, err := s.walk(ctx, root, tasksMax)
		switch {
		case err != nil:
			return nil, refusal.Wire(err)
		case !whole:
			return nil, errTooLarge
		}
		var all []*node
		first.each(func(n *node) { all = append(all, n) })
		done, err := act(ctx, r, all, response)
		if err != nil {
			return nil, refusal.Wire(err)
		}
		if done {
			return response, nil
		}
	}
	return nil, errGoesOn
}

// cancel ends what waits, and has what runs stop. A task that was reached by else or finally undoes
// something, and goes on: it counts as left.
func (s *Service) cancel(ctx context.Context, _ *kinesinv1.ControlChainRequest, all []*node, r *kinesinv1.ControlChainResponse) (done bool, err error) {
	var ids []string
	left := uint32(0)
	for _, n := range all {
		switch {
		case n.row.State.IsEnd() || n.row.CancelRequested:
		case n.undoes:
			left++
		default:
			ids = append(ids, s.Sealer.SealTask(&n.row))
		}
	}
	if r.Changed+r.Told == 0 { // else it may be a task that follows because of this call
		r.Left = left
	}
	done = len(ids) == 0
	for len(ids) > 0 {
		part := ids[:min(len(ids), changesMax)]
		ids = ids[len(part):]
		response, err := s.Tasks.Cancel(ctx, &kinesinv1.CancelRequest{Ids: part})
		if err != nil {
			return false, err
		}
		for _, one := range response.GetResults() {
			switch one.GetOutcome() {
			case "cancelled":
				r.Changed++
			case "cancelling":
				r.Told++
			}
		}
	}
	return done, nil
}

// pause holds what waits back, and what follows what runs.
func (s *Service) pause(ctx context.Context, _ *kinesinv1.ControlChainRequest, all []*node, r *kinesinv1.ControlChainResponse) (done bool, err error) {
	return s.hold(ctx, all, r, func(t *task.Task) bool { return t.Chain == nil || !t.Chain.Paused })
}

// resume undoes pause.
func (s *Service) resume(ctx context.Context, _ *kinesinv1.ControlChainRequest, all []*node, r *kinesinv1.ControlChainResponse) (done bool, err error) {
	return s.hold(ctx, all, r, func(t *task.Task) bool { return t.Chain != nil && t.Chain.Paused })
}

func (s *Service) hold(ctx context.Context, all []*node, r *kinesinv1.ControlChainResponse, is func(*task.Task) bool) (done bool, err error) {
	done = true
	for _, n := range all {
		if n.row.State.IsEnd() || !is(&n.row) {
			continue
		}
		done = false
		to := task.Instant(0)
		if n.row.Chain == nil || !n.row.Chain.Paused {
			to = Never
		}
		changed, err := s.Tasks.PauseInChain(ctx, s.Sealer.SealTask(&n.row), to)
		if err != nil {
			return false, err
		}
		if changed {
			r.Changed++
		}
	}
	return done, nil
}

// redrive has those start anew at which the chain stopped: the tasks that did not succeed, after others that
// did. What followed an end from which its task was redriven is over.
func (s *Service) redrive(ctx context.Context, _ *kinesinv1.ControlChainRequest, all []*node, r *kinesinv1.ControlChainResponse) (done bool, err error) {
	found, undoing := false, false
	for _, n := range all {
		if n.isEarlier || n.row.Forgotten || !n.row.State.IsEnd() || n.row.Succeeded() {
			continue
		}
		if n.undoes {
			undoing = true
			continue
		}
		found = true
		response, err := s.Tasks.Redrive(ctx, &kinesinv1.RedriveRequest{Ids: []string{s.Sealer.SealTask(&n.row)}, Force: n.row.State == task.Success})
		if err != nil {
			return false, err
		}
		if err := api.ErrorOf(response.GetResults()[0].GetProblem()); err != nil {
			return false, err
		}
		r.Changed++
	}
	switch {
	case found:
		return true, nil
	case undoing:
		return false, api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "nothing to redrive: of the chain only tasks have failed that else or finally lead to: redrive these by their own ids")
	}
	return false, api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "nothing to redrive: no task of the chain has failed")
}

// extend gives the tasks that have not started another time until which they may, also those that come later:
// each task hands it on to what follows it.
func (s *Service) extend(ctx context.Context, r *kinesinv1.ControlChainRequest, all []*node, out *kinesinv1.ControlChainResponse) (done bool, err error) {
	done = true
	for _, n := range all {
		if n.row.State.IsEnd() {
			continue
		}
		changed, err := s.Tasks.ExtendInChain(ctx, s.Sealer.SealTask(&n.row), task.Instant(r.GetStartBefore()))
		if err != nil {
			return false, err
		}
		if changed {
			out.Changed++
			done = false
		}
	}
	return done, nil
}

// Extend returns the chain of a task with what its handler adds to what follows it, after that was checked and
// stored.
func (k *Keeper) Extend(ctx context.Context, b *intake.Batch, t *task.Task, add *kinesinv1.Followups) (*task.Chain, error) {
	if Count(add) == 0 {
		return t.Chain, nil
	}
	have, err := k.Read(ctx, t)
	if err != nil {
		return nil, err
	}
	check := check{Batch: b, depth: 1, before: keysOf(t), from: b.Now}
	if t.Chain != nil {
		check.depth, check.count = int(t.Chain.Depth)+1, int(t.Chain.FollowCount)
	}
	if err := check.all(ctx, add); err != nil {
		return nil, refusal.Wire(err) // an unknown lambda is refused, and no reason to try again
	}
	next := *t
	apart, err := extend(&next, have, add, InlineMax(k.Store))
	switch {
	case err != nil:
		return nil, err
	case int(next.Chain.FollowBytes) > k.PayloadBytesMax():
		return nil, api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE, "what follows the task would have %d bytes: at most %d are allowed", next.Chain.FollowBytes, k.PayloadBytesMax())
	case apart == nil:
		return next.Chain, nil
	}
	return next.Chain, k.putAbsent(ctx, []store.Op{store.PutFollow(&next, apart, max(next.Due, k.Clock.Now()).Add(task.ChainRetention))})
}

// extend gives a task, of which have follows, what its handler adds to that. apart is as of Attach.
func extend(t *task.Task, have, add *kinesinv1.Followups, inlineMax int) (apart []byte, err error) {
	all := &kinesinv1.Followups{
		Then: append(have.GetThen(), add.GetThen()...), Else: append(have.GetElse(), add.GetElse()...),
		Finally: append(have.GetFinally(), add.GetFinally()...),
	}
	if apart, err = Attach(t, all, inlineMax); err != nil {
		return nil, err
	}
	for _, edge := range []task.Edge{task.Then, task.Else, task.Finally} {
		t.Chain.Added[edge-task.Then] = uint32(len(On(add, edge)))
	}
	return apart, nil
}

// Renew takes from next, the task that starts anew in place of one that has ended, what its handler added to
// what follows it: the next run adds that itself, or does not. It notes the end, so that what followed it is
// found. apart is as of Attach.
func (k *Keeper) Renew(ctx context.Context, ended, next *task.Task) (apart []byte, err error) {
	if !ended.HasFollowups() {
		return nil, nil
	}
	if err := k.noteEnd(ctx, ended, next); err != nil || !next.HasAdded() {
		return nil, err
	}
	f, err := read(ctx, k.Store, next)
	if err != nil {
		return nil, err
	}
	first := func(edge task.Edge) []*kinesinv1.ScheduleItem {
		items := On(f, edge)
		return items[:len(items)-min(len(items), int(next.Chain.Added[edge-task.Then]))]
	}
	return Attach(next, &kinesinv1.Followups{Then: first(task.Then), Else: first(task.Else), Finally: first(task.Finally)}, InlineMax(k.Store))
}

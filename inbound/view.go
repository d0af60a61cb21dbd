package inbound

import (
	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// deletedLambda is shown for the name of a deleted lambda whose ended tasks are still kept.
const deletedLambda = "(deleted)"

// view returns a task as users see it, without its payload and its result.
func (in *Inbound) view(t *task.Task) *kinesinv1.Task {
	v := api.WireTask(t)
	v.Id, v.Lambda, v.Worker = in.Sealer.SealTask(t), deletedLambda, workerOf(t)
	switch {
	case t.State.IsRunning():
		v.Next = 0 // its worker's lease decides, wherever the wake-up is
	case t.Chain != nil && t.Chain.Paused:
		v.Next = 0
	case t.State == task.Acquired:
		v.Next = int64(t.ClaimedAt.Add(task.AcquireTimeout))
	}
	l := in.Catalog.ByRef(t.Partition.Lambda)
	v.WaitsFor = in.waitsFor(t, l)
	if l != nil {
		v.Lambda = l.Name
		v.Priority = l.Priorities[t.Partition.Priority]
		if l.Mode == task.Managed {
			v.MaxAttempts = l.PolicyFor(t).MaxAttempts
		}
	}
	for i := range t.History {
		v.Attempts = append(v.Attempts, api.WireAttempt(&t.History[i]))
	}
	if v.WaitsFor == nil {
		v.WaitsFor = in.keyWait(t, l, in.Clock.Now())
	}
	if v.WaitsFor == nil {
		v.WaitsFor = in.quotaWait(t, in.Clock.Now())
	}
	if v.WaitsFor == nil {
		v.WaitsFor = in.queueWait(t, in.Clock.Now())
	}
	v.Chain = in.chainOf(t)
	if t.State.IsRunning() {
		v.Attempts = append(v.Attempts, &kinesinv1.Attempt{
			Number: t.Attempt, Worker: t.Worker, Start: int64(t.Started), Version: task.WorkerVersion(t.Worker),
		})
	}
	return v
}

// chainOf returns where in a chain a task is; nil if it is in none.
func (in *Inbound) chainOf(t *task.Task) *kinesinv1.Link {
	c := t.Chain
	if c == nil {
		return nil
	}
	link := &kinesinv1.Link{Root: in.Sealer.Seal(t.RootLink().Token()), Edge: c.Edge.String(), Followups: c.FollowCount, Paused: c.Paused}
	if !c.Parent.ID.IsZero() {
		link.Parent = in.Sealer.Seal(c.Parent.Token())
	}
	return link
}

// workerOf returns the worker of a task's newest attempt, or the process that acquired it. The process that
// enqueued a task is not for users to see.
func workerOf(t *task.Task) string {
	if t.State == task.Enqueued {
		return ""
	}
	return t.Worker
}

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
	v := &kinesinv1.Task{
		Id: in.Sealer.SealTask(t), Lambda: deletedLambda, State: t.State.String(),
		Collection: t.Collection, Key: t.Key, LimitKey: t.LimitKey,
		Due: int64(t.PlannedDue()), Created: int64(t.Created), Enqueued: int64(t.Enqueued),
		Started: int64(t.FirstStarted), Ended: int64(t.Ended), Next: int64(t.Wake),
		Attempt: t.Attempt, Failures: t.Failures, WorkerLost: t.Lost, Suspect: t.Suspect,
		CancelRequested: t.CancelRequested, Worker: workerOf(t), PayloadBytes: int64(t.PayloadSize), Seq: t.Seq,
		Traceparent: t.Traceparent, Tags: task.TagValues(t.Tags), StartBefore: int64(t.StartBefore),
		ResultBytes: int64(len(t.Result)), Occurrence: api.WireOccurrence(t.Occurrence),
		Member: api.WireMember(t.Member), Group: api.WireGroupEnd(t.GroupEnd),
		Timeout: t.Overrides.Timeout.Microseconds(), BackoffMin: t.Overrides.BackoffMin.Microseconds(), BackoffMax: t.Overrides.BackoffMax.Microseconds(),
	}
	if t.Blob != nil {
		v.PayloadBytes = t.Blob.Bytes
	}
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

package inbound

import (
	"cmp"
	"context"
	"slices"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// Update replaces the payload or the settings of tasks that no worker has.
func (in *Inbound) Update(ctx context.Context, r *kinesinv1.UpdateRequest) (*kinesinv1.ChangeResponse, error) {
	if n := len(r.Updates); n == 0 || n > IDsMax {
		return nil, refusal.Invalid("a call updates 1 to %d tasks, this one %d", IDsMax, n)
	}
	response := &kinesinv1.ChangeResponse{}
	for _, u := range r.Updates {
		if err := api.CheckMask(u); err != nil {
			return nil, err
		}
	}
	for _, u := range r.Updates {
		ids, err := in.idsOfUpdate(ctx, u)
		if err != nil {
			return nil, err
		}
		one, err := in.changeAll(ctx, kinesinv1connect.TaskServiceUpdateProcedure, ids, u.IfSeq, task.ID{},
			func(t *task.Task, l *catalog.Entry) (task.Task, []byte, error) { return in.updated(t, l, u) })
		if err != nil {
			return nil, err
		}
		response.Results = append(response.Results, one.Results...)
	}
	return response, nil
}

func (in *Inbound) idsOfUpdate(ctx context.Context, u *kinesinv1.TaskUpdate) ([]string, error) {
	switch {
	case u.Key == nil:
		return in.withKeys(ctx, []string{u.Id}, nil)
	case u.Id != "":
		return nil, refusal.Invalid("an update names a task by id or by key, not both")
	}
	return in.withKeys(ctx, nil, []*kinesinv1.TaskKey{u.Key})
}

// updated returns a task with what an update sets, and the payload that replaces its own, if any.
func (in *Inbound) updated(t *task.Task, l *catalog.Entry, u *kinesinv1.TaskUpdate) (next task.Task, payload []byte, err error) {
	if next, err = in.moved(t, l, u); err != nil {
		return next, nil, err
	}
	if err := in.setSettings(&next, l, u); err != nil {
		return next, nil, err
	}
	if !changes(u, "payload") && !changes(u, "blob") {
		return next, nil, nil
	}
	if u.Blob == nil && !changes(u, "payload") {
		return next, nil, refusal.Invalid("the blob cannot be reset: want a payload, which may be empty, or another blob")
	}
	next.Blob, err = in.newPayload(l, u.Blob, u.Payload)
	return next, nonNil(u.Payload), err
}

// moved returns a task with the time and the priority that an update sets. Another priority is another
// partition: the task gets a wake-up row there, and starts in the order of that priority.
func (in *Inbound) moved(t *task.Task, l *catalog.Entry, u *kinesinv1.TaskUpdate) (next task.Task, err error) {
	if !changes(u, "due") && !changes(u, "delay") {
		next, _, err = t.Apply(task.Event{Kind: task.Update}, in.Clock.Now(), l.PolicyFor(t))
	} else {
		b, end := in.Begin(0)
		defer end()
		var due task.Instant
		if _, due, err = dueOf(b, u.Due, u.GetDelay()); err == nil {
			to := *t
			if changes(u, "start_before") {
				to.StartBefore = task.Instant(u.StartBefore)
			}
			next, err = in.rescheduled(&to, l, due)
		}
	}
	if err != nil || !changes(u, "priority") {
		return next, err
	}
	priority, err := l.Priority(u.Priority)
	if err == nil {
		setPriority(&next, l, priority)
	}
	return next, err
}

// setPriority moves a task to the partition of a priority, unless it has that priority.
func setPriority(t *task.Task, l *catalog.Entry, priority uint8) {
	if priority != t.Partition.Priority {
		t.FirstPartition = cmp.Or(t.FirstPartition, t.Partition)
		t.Partition = intake.PartitionOf(l, priority, t.ID, t.LimitKey)
	}
}

// changes reports whether an update changes a field.
func changes(u *kinesinv1.TaskUpdate, field string) bool { return slices.Contains(u.Fields, field) }

// setSettings sets those settings of a task that an update changes.
func (in *Inbound) setSettings(next *task.Task, l *catalog.Entry, u *kinesinv1.TaskUpdate) error {
	o := &next.Overrides
	settings := &kinesinv1.TaskUpdate{
		MaxAttempts: o.MaxAttempts, Timeout: o.Timeout.Microseconds(), BackoffMin: o.BackoffMin.Microseconds(), BackoffMax: o.BackoffMax.Microseconds(),
	}
	api.Change(settings, u)
	*o = task.Overrides{
		MaxAttempts: settings.MaxAttempts, Timeout: task.Micros(settings.Timeout), BackoffMin: task.Micros(settings.BackoffMin), BackoffMax: task.Micros(settings.BackoffMax),
	}
	switch {
	case !changes(u, "start_before"):
	case u.StartBefore == 0 && l.StartWithin > 0:
		next.StartBefore = next.Due.Add(l.StartWithin)
	case u.StartBefore == 0:
		next.StartBefore = 0
	case task.Instant(u.StartBefore) <= next.Due:
		return refusal.Invalid("start_before %s is not after the due time %s",
			task.Instant(u.StartBefore).Time().Format(timeForm), next.Due.Time().Format(timeForm))
	default:
		next.StartBefore = task.Instant(u.StartBefore)
	}
	if l.Mode == task.Deliver && (*o != task.Overrides{} || !next.StartBefore.IsZero()) {
		return refusal.Invalid("lambda %s is of mode deliver: max attempts, timeout, backoff and start_before do not apply", l.Name)
	}
	return refusalOf(o.Validate())
}

// newPayload refuses a payload that the lambda's tasks cannot have, and returns the blob that it is, if it is
// one.
func (in *Inbound) newPayload(l *catalog.Entry, blob *kinesinv1.Blob, payload []byte) (*task.Blob, error) {
	if n, most := len(payload), in.Intake.Store.PayloadBytesMax(); n > most {
		return nil, api.Errorf(kinesinv1.Reason_REASON_TOO_LARGE, "payload of %d bytes: at most %d are allowed", n, most)
	}
	if l.Mode == task.Deliver && blob == nil {
		return nil, in.Queue.CheckPayload(payload)
	}
	return intake.BlobFor(l, blob, payload)
}

func nonNil(payload []byte) []byte {
	if payload == nil {
		return []byte{}
	}
	return payload
}

func refusalOf(err error) error {
	if err == nil {
		return nil
	}
	return refusal.Invalid("%v", err)
}

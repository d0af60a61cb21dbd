package inbound

import (
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/task"
)

// callQuota is what the quotas of admission say to one call.
type callQuota struct {
	in       *Inbound
	identity string
	refused  int
}

// take admits one more task of the call.
func (q *callQuota) take(l *catalog.Entry) error {
	if q.in.Admission == nil {
		return nil
	}
	after, ok := q.in.Admission.Take(l.Ref, q.identity, q.refused)
	if ok {
		return nil
	}
	q.refused++
	if q.in.Hooks.Throttled != nil {
		q.in.Hooks.Throttled(l.Ref)
	}
	return api.Errorf(kinesinv1.Reason_REASON_THROTTLED,
		"the admission quota of lambda %s is used up; try again in %v (kinesin quota get --lambda %s shows it)", l.Name, after.Round(time.Millisecond), l.Name).After(after)
}

// queueWait returns that a task waits for room in its queue: it is due, and others of its partition wait for
// that; nil if it does not, as far as this server knows.
func (in *Inbound) queueWait(t *task.Task, now task.Instant) *kinesinv1.WaitsFor {
	waits := t.State == task.Scheduled || t.State == task.RetriableFailure
	if !waits || t.Wake > now || in.QueueFull == nil || !in.QueueFull(t.Partition) {
		return nil
	}
	return &kinesinv1.WaitsFor{Reason: waitsForRoom, Text: "queue full: workers have to take tasks of its lambda and priority first"}
}

// quotaWait returns that a task waits for its quota: it is due, and its lambda has one; nil if it does not.
func (in *Inbound) quotaWait(t *task.Task, now task.Instant) *kinesinv1.WaitsFor {
	waits := t.State == task.Scheduled || t.State == task.RetriableFailure
	if !waits || t.Wake > now || in.StartQuota == nil {
		return nil
	}
	of := in.StartQuota(t.Partition)
	if of == "" {
		return nil
	}
	return &kinesinv1.WaitsFor{Reason: waitsForQuota, Text: "the quota of " + of + " of its lambda or priority; kinesin quota get shows it"}
}

// keyWait returns that a task waits for its limit key: it is due, and its lambda has limits by key; nil if it
// does not.
func (in *Inbound) keyWait(t *task.Task, l *catalog.Entry, now task.Instant) *kinesinv1.WaitsFor {
	waits := t.State == task.Scheduled || t.State == task.RetriableFailure
	if !waits || t.Wake > now || t.LimitKey == "" || l == nil || in.KeyWait == nil {
		return nil
	}
	if text := in.KeyWait(l, t); text != "" {
		return &kinesinv1.WaitsFor{Reason: waitsForKey, Text: text}
	}
	return nil
}

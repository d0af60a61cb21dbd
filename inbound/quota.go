package inbound

import (
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/task"
)

// Admission keeps the quotas of what is scheduled.
type Admission interface {
	// Take admits a task of an identity, or says after what time it will; refused is how many tasks of the
	// same call wait as well.
	Take(lambda uint32, identity string, refused int) (after time.Duration, ok bool)
}

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
	return api.Errorf(kinesinv1.Reason_REASON_THROTTLED,
		"the admission quota of lambda %s is used up; try again in %v (kinesin quota get --lambda %s shows it)", l.Name, after.Round(time.Millisecond), l.Name).After(after)
}

// quotaWait returns that a task waits for its quota: it is due, and its lambda has one; nil if it does not.
func (in *Inbound) quotaWait(t *task.Task, now task.Instant) *kinesinv1.WaitsFor {
	waits := t.State == task.Scheduled || t.State == task.RetriableFailure
	if !waits || t.Wake > now || in.HasStartQuota == nil || !in.HasStartQuota(t.Partition) {
		return nil
	}
	return &kinesinv1.WaitsFor{Reason: "quota", Text: "the quota of starts of its lambda or priority; kinesin quota get shows it"}
}

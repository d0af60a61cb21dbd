package inbound

import (
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
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
		"the admission quota of lambda %s is used up; try again in %v (kinesin quota get %s shows it)", l.Name, after.Round(time.Millisecond), l.Name).After(after)
}

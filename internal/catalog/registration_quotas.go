package catalog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kinesin-io/kinesin/internal/quota"
	"github.com/kinesin-io/kinesin/task"
)

// registrationQuotas are the quotas in a registration.
type registrationQuotas struct {
	Rate        float64                         `json:"rate,omitempty"`
	Burst       uint32                          `json:"burst,omitempty"`
	Admit       float64                         `json:"admit,omitempty"`
	Concurrency uint32                          `json:"concurrency,omitempty"`
	Recovery    uint32                          `json:"recovery,omitempty"`
	ByPriority  map[string]registrationPriority `json:"by_priority,omitempty"`

	AdmitByIdentity map[string]float64 `json:"admit_by_identity,omitempty"`
}

// registrationPriority are the limits of one priority.
type registrationPriority struct {
	Rate        float64 `json:"rate,omitempty"`
	Burst       uint32  `json:"burst,omitempty"`
	Concurrency uint32  `json:"concurrency,omitempty"`
}

// limits returns the quotas of a lambda with these priorities; nil for a registration that leaves them alone,
// and empty for one that wants none.
func (r *registrationQuotas) limits(mode task.Mode, priorities []string) ([]quota.Limit, error) {
	if r == nil {
		return nil, nil
	}
	all := []quota.Limit{{Rate: r.Rate, Burst: r.Burst, Admit: r.Admit, Concurrency: r.Concurrency, Recovery: r.Recovery}}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(r.ByPriority)) {
		class := slices.Index(priorities, name)
		if class < 0 {
			errs = append(errs, fmt.Errorf("%w quotas: %.64q is no priority of the lambda, which has %s", task.ErrInvalid, name, strings.Join(priorities, ", ")))
			continue
		}
		of := r.ByPriority[name]
		all = append(all, quota.Limit{Priority: name, Class: uint8(class), Rate: of.Rate, Burst: of.Burst, Concurrency: of.Concurrency})
	}
	for _, name := range slices.Sorted(maps.Keys(r.AdmitByIdentity)) {
		if name == "" {
			errs = append(errs, fmt.Errorf("%w quotas: admit_by_identity names an identity that is empty; admit is for all together", task.ErrInvalid))
		}
		all = append(all, quota.Limit{Identity: name, Admit: r.AdmitByIdentity[name]})
	}
	for i := range all {
		errs = append(errs, all[i].Validate())
		if mode == task.Deliver && all[i].Concurrency > 0 {
			errs = append(errs, fmt.Errorf("%w quotas: concurrency is not for mode deliver, whose messages Kinesin does not follow; want a rate", task.ErrInvalid))
		}
	}
	if len(all) > quota.LimitsMax {
		errs = append(errs, fmt.Errorf("%w quotas: %d of them, over priorities and identities; want at most %d", task.ErrInvalid, len(all), quota.LimitsMax))
	}
	return slices.DeleteFunc(all, func(l quota.Limit) bool { return l.IsNone() }), errors.Join(errs...)
}

// Package quota bounds how many tasks of a lambda, or of a priority of it, start in a second and run at once,
// and how many Schedule takes. Quotas are control rows, of which a Book is this process's copy. What keeps the
// limits of starts and of what runs is internal/limit; an Admission keeps this server's share of what Schedule
// takes. The package reads and writes no task.
package quota

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/task"
)

// Bounds of a quota.
const (
	// RateMin is the lowest rate, in tasks per second: about one in a quarter of an hour.
	RateMin = 0.001
	// RateMax is the highest rate, in tasks per second.
	RateMax = 1_000_000
	// BurstMax bounds how many tasks start at once after a pause.
	BurstMax = 100_000
	// ConcurrencyMax is how many tasks run at once at most under a quota that bounds them.
	ConcurrencyMax = 100_000
	// LimitsMax is how many limits a lambda has at most, over priorities and identities.
	LimitsMax = 100
	// IdentityBytesMax bounds the name of an identity.
	IdentityBytesMax = 256
)

// Kind is the kind of the control rows of quotas, each under the name of its lambda.
const Kind = "quota"

// Quota has the limits of a lambda. It is also the stored form.
type Quota struct {
	control.Meta `json:"-"`

	Lambda string  `json:"lambda"`
	Ref    uint32  `json:"ref"` // of the lambda: one that is created again is another
	Limits []Limit `json:"limits"`

	// Registration is the digest of the registration that set the limits last; empty: none did. A row with
	// one stays when a call takes all limits away, so that they are not set again.
	Registration string `json:"registration,omitempty"`
}

// Limit bounds the starts, or the running tasks, of all priorities together or of one, or what Schedule takes
// of all identities together or of one.
type Limit struct {
	Priority string `json:"priority,omitempty"` // empty: all together
	Class    uint8  `json:"class,omitempty"`    // the index of Priority
	Identity string `json:"identity,omitempty"` // whose tasks Admit bounds; empty: those of all together

	Rate  float64 `json:"rate,omitempty"`  // starts per second; 0: no limit
	Burst uint32  `json:"burst,omitempty"` // starts at once after a pause; 0: what the rate gives in 100 ms
	Admit float64 `json:"admit,omitempty"` // tasks per second that Schedule takes; 0: no limit

	Concurrency uint32 `json:"concurrency,omitempty"` // tasks that run at once; 0: no limit

	// Recovery is how many tasks per second a resumed gate lets go, and a redrive job changes, if it is
	// given no pace; 0: no limit.
	Recovery uint32 `json:"recovery,omitempty"`

	Updated   task.Instant `json:"updated"`
	UpdatedBy string       `json:"updated_by,omitempty"`

	ManagedBy string `json:"managed_by,omitempty"` // the declared set that it is of; empty: none
}

// IsNone reports whether the limit bounds nothing.
func (l *Limit) IsNone() bool {
	return l.Rate == 0 && l.Admit == 0 && l.Concurrency == 0 && l.Recovery == 0
}

// Validate checks a limit as it is after a change.
func (l *Limit) Validate() error {
	var errs []error
	for _, r := range []struct {
		name string
		rate float64
	}{{"rate", l.Rate}, {"admit", l.Admit}} {
		if r.rate != 0 && !(r.rate >= RateMin && r.rate <= RateMax) || math.IsNaN(r.rate) {
			errs = append(errs, fmt.Errorf("%w %s %v: want %v to %d tasks per second", task.ErrInvalid, r.name, r.rate, RateMin, RateMax))
		}
	}
	if l.Burst > BurstMax {
		errs = append(errs, fmt.Errorf("%w burst %d: want at most %d", task.ErrInvalid, l.Burst, BurstMax))
	}
	if l.Burst > 0 && l.Rate == 0 {
		errs = append(errs, fmt.Errorf("%w burst %d: there is no rate; give both", task.ErrInvalid, l.Burst))
	}
	if l.Concurrency > ConcurrencyMax {
		errs = append(errs, fmt.Errorf("%w concurrency %d: want 1 to %d tasks that run at once", task.ErrInvalid, l.Concurrency, ConcurrencyMax))
	}
	if l.Identity != "" && l.Concurrency != 0 {
		errs = append(errs, fmt.Errorf("%w quota: concurrency is per lambda and priority, not per identity; leave the identity out", task.ErrInvalid))
	}
	if l.Priority != "" && l.Admit != 0 {
		errs = append(errs, fmt.Errorf("%w quota: admit is per lambda and identity, not per priority; leave the priority out", task.ErrInvalid))
	}
	if l.Identity != "" && l.Rate != 0 {
		errs = append(errs, fmt.Errorf("%w quota: rate is per lambda and priority, not per identity; leave the identity out", task.ErrInvalid))
	}
	if l.Recovery > RateMax {
		errs = append(errs, fmt.Errorf("%w recovery %d: want 1 to %d tasks per second", task.ErrInvalid, l.Recovery, RateMax))
	}
	if l.Recovery > 0 && (l.Priority != "" || l.Identity != "") {
		errs = append(errs, fmt.Errorf("%w quota: recovery is per lambda, not per priority or identity; leave these out", task.ErrInvalid))
	}
	if len(l.Identity) > IdentityBytesMax {
		errs = append(errs, fmt.Errorf("%w identity: want at most %d bytes", task.ErrInvalid, IdentityBytesMax))
	}
	return errors.Join(errs...)
}

// Find returns the limit of a priority and identity; a new one if there is none.
func (q *Quota) Find(priority, identity string) Limit {
	for _, l := range q.Limits {
		if l.Priority == priority && l.Identity == identity {
			return l
		}
	}
	return Limit{Priority: priority, Identity: identity}
}

// With returns the quota with a limit in place of the one of the same priority and identity. A limit that
// bounds nothing is left out.
func (q *Quota) With(l Limit) *Quota {
	next := *q
	next.Limits = slices.DeleteFunc(slices.Clone(q.Limits), func(old Limit) bool {
		return old.Priority == l.Priority && old.Identity == l.Identity
	})
	if !l.IsNone() {
		next.Limits = append(next.Limits, l)
	}
	slices.SortFunc(next.Limits, func(a, b Limit) int {
		if a.Priority+a.Identity == "" || b.Priority+b.Identity == "" {
			return len(a.Priority+a.Identity) - len(b.Priority+b.Identity)
		}
		if (a.Identity == "") != (b.Identity == "") {
			return len(a.Identity) - len(b.Identity)
		}
		if a.Class != b.Class {
			return int(a.Class) - int(b.Class)
		}
		return compare(a.Identity, b.Identity)
	})
	return &next
}

func compare(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// AsRows says how quotas are kept as rows.
var AsRows = control.Kind[Quota]{Live: Kind, What: "quota", Name: func(q *Quota) string { return q.Lambda }}

// Package quota bounds how many tasks of a lambda, or of a priority of it, start in a second and run at once,
// and how many Schedule takes. Quotas are control rows, of which a Book is this process's copy. What keeps the
// limits of starts and of what runs is internal/limit; an Admission keeps this server's share of what Schedule
// takes. A Service serves the QuotaService of the wire contract. The package reads and writes no task.
package quota

import (
	"slices"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/control"
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

// Limit is a limit of a quota, which a registration may declare.
type Limit = catalog.Limit

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

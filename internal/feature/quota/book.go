// Package quota bounds how many tasks of a lambda, or of a priority of it, start in a second and run at once,
// and how many Schedule takes. Quotas are control rows, of which a Book is this process's copy. What keeps the
// limits of starts and of what runs is internal/limit; an Admission keeps this server's share of what Schedule
// takes. A Service serves the QuotaService of the wire contract. The package reads and writes no task.
package quota

import (
	"cmp"
	"log/slog"
	"slices"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/limit"
)

// Book has all quotas. It answers from memory, and is safe for concurrent use. While the store does not
// answer, the quotas that were known last stay.
type Book struct {
	*control.Copy[byLambda]
}

// byLambda has the limits of each lambda as they are looked up.
type byLambda map[uint32]*limits

// limits are the limits of a lambda.
type limits struct {
	starts  map[uint8]Limit    // of priorities
	all     Limit              // of all priorities together; it may have no rate
	hasRate bool               // starts of the lambda, or of one of its priorities, are bounded
	running *limit.Concurrency // nil: any number of tasks run at once
	admits  map[string]float64 // by identity; of all together under the empty one

	recovery uint32

	bounding []Limit // those with a rate or a concurrency

	registration string // the digest of the one that set them last
}

// NewBook returns a book without quotas; Refresh or Run fills it.
func NewBook(rows control.Rows, c clock.Clock, log *slog.Logger) *Book {
	return &Book{control.CopyOf(&AsRows, rows, c, log, build)}
}

func build(quotas []*Quota) byLambda {
	all := byLambda{}
	for _, q := range quotas {
		if len(q.Limits) > 0 || q.Registration != "" {
			all[q.Ref] = limitsOf(q)
		}
	}
	return all
}

func limitsOf(q *Quota) *limits {
	of := &limits{starts: map[uint8]Limit{}, admits: map[string]float64{}, registration: q.Registration}
	for _, l := range q.Limits {
		of.hasRate = of.hasRate || l.Rate > 0
		of.running = noteConcurrency(of.running, &l)
		if l.Rate > 0 || l.Concurrency > 0 {
			of.bounding = append(of.bounding, l)
		}
		switch {
		case l.Rate > 0 && l.Priority != "":
			of.starts[l.Class] = l
		case l.Rate > 0:
			of.all = l
		}
		of.recovery = max(of.recovery, l.Recovery)
		if l.Admit > 0 {
			of.admits[l.Identity] = l.Admit
		}
	}
	return of
}

// Recovery returns at how many tasks per second what was held back or has ended goes on, if nobody says
// otherwise; 0: at once.
func (b *Book) Recovery(lambda uint32) uint32 {
	if of := b.Value()[lambda]; of != nil {
		return of.recovery
	}
	return 0
}

// Starts returns the limits that bound how many tasks of a lambda start or run at once: that of all
// priorities together comes first.
func (b *Book) Starts(lambda uint32) []Limit {
	of := b.Value()[lambda]
	if of == nil {
		return nil
	}
	return of.bounding
}

// Registration returns the digest of the registration that set the quotas of a lambda last; empty: none did.
func (b *Book) Registration(lambda uint32) string {
	if of := b.Value()[lambda]; of != nil {
		return of.registration
	}
	return ""
}

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
		return cmp.Compare(a.Identity, b.Identity)
	})
	return &next
}

// AsRows says how quotas are kept as rows.
var AsRows = control.Kind[Quota]{Live: Kind, What: "quota", Name: func(q *Quota) string { return q.Lambda }}

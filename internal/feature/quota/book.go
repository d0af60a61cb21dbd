package quota

import (
	"log/slog"

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

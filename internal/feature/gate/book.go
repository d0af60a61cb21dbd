// Package gate keeps what operators hold back, and serves the GateService of the wire contract: it sets gates, ends
// them, shows them, and counts what a gate holds. Gates are control rows; a Book is this process's copy of them,
// refreshed every second and a half and at once after a change made here. Which gate holds a task is internal/hold's.
// The package reads tasks by inbound alone, and changes none.
package gate

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Kind is the kind of the control rows of gates that have not ended, KindEnded of those that have.
const (
	Kind      = "gate"
	KindEnded = "gate-ended"
)

// Book has the gates that are in force. It answers from memory, and is safe for concurrent use. While the
// store does not answer, the gates that were known last stay.
type Book struct {
	*control.Copy[byLambda]
}

// byLambda has the gates of each lambda, oldest first; without those that have ended.
type byLambda map[uint32]hold.Gates

// NewBook returns a book without gates; Refresh or Run fills it.
func NewBook(rows control.Rows, c clock.Clock, log *slog.Logger) *Book {
	return &Book{control.CopyOf(&AsRows, rows, c, log, build)}
}

func build(gates []*hold.Gate) byLambda {
	all := byLambda{}
	for _, g := range gates {
		all[g.Ref] = append(all[g.Ref], g)
	}
	for _, of := range all {
		slices.SortFunc(of, func(a, b *hold.Gate) int { return cmp.Compare(a.Created, b.Created) })
	}
	return all
}

// Has reports whether any gate is about a lambda, in force or not.
func (b *Book) Has(lambda uint32) bool { return len(b.Value()[lambda]) > 0 }

// OfLambda returns the gates of a lambda. They must not be changed.
func (b *Book) OfLambda(lambda uint32) hold.Gates { return b.Value()[lambda] }

// Store is where gates are kept.
type Store = store.ControlRows

// AsRows says how gates are kept as rows.
var AsRows = control.Kind[hold.Gate]{Live: Kind, Ended: KindEnded, What: "gate", Name: func(g *hold.Gate) string { return g.ID }}

// End ends a gate as of an instant, and buries it. An empty by leaves EndedBy as it is. store.ErrConflict says that the
// gate was changed since it was read. Once the end is stored the gate holds nothing, although it may be returned with an
// error: whoever tidies up buries it then.
func End(ctx context.Context, rows *control.Book[hold.Gate], g *hold.Gate, at task.Instant, by string) error {
	if g.Ended.IsZero() {
		ended := *g
		if ended.Ended = at; by != "" {
			ended.EndedBy = by
		}
		if err := rows.Put(ctx, &ended); err != nil {
			return err
		}
		*g = ended
	}
	_, err := rows.Bury(ctx, g)
	return err
}

package gate

import (
	"context"

	"github.com/kinesin-io/kinesin/internal/control"
	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

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

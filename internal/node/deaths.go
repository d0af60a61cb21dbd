package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/objective"
	"github.com/kinesin-io/kinesin/internal/overview"
)

// Deaths are read for all who ask together, and while somebody asks.
const (
	deathsEvery        = time.Second
	deathsEveryMetered = 30 * time.Second // of a store whose reads cost money
	deathsWithin       = 10 * time.Second
	deathsShare        = 20
)

// deaths tells how many tasks died lately.
type deaths struct {
	source *Node

	known overview.Shared[map[uint32]objective.Deaths]
}

// of returns the deaths of a lambda in the last hour and day; none while they cannot be read.
func (d *deaths) of(ctx context.Context, lambda uint32) (hour, day int64) {
	n := d.source
	all := d.known.Get(n.clock, deathsShare, func() (map[uint32]objective.Deaths, time.Duration) {
		// The caller may leave; the others that wait want the answer all the same.
		ctx, cancel := clock.Within(context.WithoutCancel(ctx), n.clock, deathsWithin)
		defer cancel()
		all, err := n.objectives.Deaths(ctx)
		if err != nil {
			n.log.WarnContext(ctx, "cannot tell how many tasks died lately", slog.Any("error", err))
		}
		if n.store.EndedExpire() {
			return all, deathsEveryMetered
		}
		return all, deathsEvery
	})
	return all[lambda].Hour, all[lambda].Day
}

package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/objective"
	"github.com/kinesin-io/kinesin/internal/overview"
	"github.com/kinesin-io/kinesin/internal/refusal"
)

// The forecast of an overview is counted for all who ask together, and while somebody asks.
const (
	glanceEvery        = 2 * time.Second
	glanceEveryMetered = 10 * time.Minute // of a store whose reads cost money
	glanceRows         = 50_000           // that one count reads, about
	glanceRowsMetered  = 2_000
	glanceWithin       = 10 * time.Second
	// glanceShare bounds what counting takes of the time, as 1 in so many.
	glanceShare = 20
)

// glance makes the overview that statistics have on request, of what the console shows on its first page.
type glance struct {
	source *Node
	clock  clock.Clock

	forecast overview.Shared[*overview.Forecast] // nil: it could not be counted
}

// glanceWindows and glanceAhead are the times of which an overview tells.
var (
	glanceWindows = []time.Duration{time.Minute, time.Hour, 24 * time.Hour}                       //nolint:gochecknoglobals // a table
	glanceAhead   = []time.Duration{5 * time.Minute, 15 * time.Minute, time.Hour, 24 * time.Hour} //nolint:gochecknoglobals // a table
)

func (g *glance) overview(ctx context.Context) (*kinesinv1.Overview, error) {
	o, grants := &kinesinv1.Overview{}, access.From(ctx).Grants
	fleet, err := g.source.Fleet(ctx)
	if err != nil {
		return nil, refusal.Wire(err)
	}
	if grants.AllowAll(access.Metrics) {
		for _, length := range glanceWindows {
			o.Windows = append(o.Windows, windowOf(length, g.source.Window(length)))
		}
		o.Installation = installationOf(&fleet)
	}
	if f := g.due(ctx, fleet.Store.Metered); f != nil {
		o.DueAt = f.At.UnixMicro()
		o.Due = dueSoon(f, func(lambda string) bool { return grants.Allow(access.Read, lambda) })
	}
	return o, nil
}

func windowOf(asked time.Duration, w overview.Window) *kinesinv1.OverviewWindow {
	return &kinesinv1.OverviewWindow{
		Asked: asked.Microseconds(), Covered: w.Length.Microseconds(), StartedPerSecond: w.Started, FailedPerSecond: w.Failed, EndedPerSecond: w.Ended,
		LatenessP50: w.Late50.Microseconds(), LatenessP95: w.Late95.Microseconds(), LatenessP99: w.Late99.Microseconds(),
	}
}

func installationOf(f *overview.Fleet) *kinesinv1.Installation {
	return &kinesinv1.Installation{
		Workers: int64(len(f.Workers)), Servers: int64(len(f.Servers)), Partitions: int64(f.Partitions), UnownedPartitions: int64(f.Unowned),
		StoreFull: f.Store.Full, StoreDamaged: len(f.Store.Damaged) > 0, NotReady: f.NotReady,
	}
}

// due returns the forecast, and counts it if it is old.
func (g *glance) due(ctx context.Context, metered bool) *overview.Forecast {
	return g.forecast.Get(g.clock, glanceShare, func() (*overview.Forecast, time.Duration) {
		every, rows := glanceEvery, glanceRows
		if metered {
			every, rows = glanceEveryMetered, glanceRowsMetered
		}
		f, err := g.count(ctx, rows)
		if err != nil {
			g.source.log.WarnContext(ctx, "cannot count what will be due", slog.Any("error", err))
			return nil, glanceEvery
		}
		return &f, every
	})
}

func (g *glance) count(ctx context.Context, rows int) (overview.Forecast, error) {
	// The caller may leave; the others that wait want the answer all the same.
	ctx, cancel := clock.Within(context.WithoutCancel(ctx), g.clock, glanceWithin)
	defer cancel()
	now := g.clock.Now().Time()
	edges := []time.Time{now}
	for _, ahead := range glanceAhead {
		edges = append(edges, now.Add(ahead))
	}
	return g.source.Forecast(ctx, edges, rows)
}

// dueSoon adds up a forecast for the lambdas that may be seen. Overdue tasks are not in it.
func dueSoon(f *overview.Forecast, may func(lambda string) bool) (all []*kinesinv1.DueSoon) {
	sum := f.Sum(may)
	for i, edge := range f.Edges[1:] {
		tasks, off := sum.In(1, i+1)
		all = append(all, &kinesinv1.DueSoon{
			Within: edge.Sub(f.At).Round(time.Minute).Microseconds(), Tasks: tasks, AtLeast: sum.IsAtLeast(edge), Error: off,
		})
	}
	return all
}

// Deaths are read for all who ask together, and while somebody asks.
const (
	deathsEvery        = time.Second
	deathsEveryMetered = 30 * time.Second // of a store whose reads cost money
	deathsWithin       = 10 * time.Second
	deathsShare        = 20
)

// deaths tells how many tasks died lately.
type deaths struct {
	objectives *objective.Keeper
	clock      clock.Clock
	log        *slog.Logger
	metered    bool // reads cost money

	known overview.Shared[map[uint32]objective.Deaths]
}

// of returns the deaths of a lambda in the last hour and day; none while they cannot be read.
func (d *deaths) of(ctx context.Context, lambda uint32) (hour, day int64) {
	all := d.known.Get(d.clock, deathsShare, func() (map[uint32]objective.Deaths, time.Duration) {
		// The caller may leave; the others that wait want the answer all the same.
		ctx, cancel := clock.Within(context.WithoutCancel(ctx), d.clock, deathsWithin)
		defer cancel()
		all, err := d.objectives.Deaths(ctx)
		if err != nil {
			d.log.WarnContext(ctx, "cannot tell how many tasks died lately", slog.Any("error", err))
		}
		if d.metered {
			return all, deathsEveryMetered
		}
		return all, deathsEvery
	})
	return all[lambda].Hour, all[lambda].Day
}

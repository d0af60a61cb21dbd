package node

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// keyUnitsMax is how many write units a second DynamoDB takes of a key, as it documents.
	keyUnitsMax = 1000
	// nearShare of that is near the limit: what is left is for the minutes until more shards are in force.
	nearShare = 0.7
	// busyShare of it makes a key busy, whose throttled writes may be its own fault. Those of one that takes
	// less are the fault of a table with too little capacity, where more shards would help nobody.
	busyShare = 0.3
	// toldMin is the least rate that a process tells the others of: hundreds of them may share one key.
	toldMin = 1
	// loadEvery is how often a process looks.
	loadEvery = time.Minute
	// toldFor is how long what a process told counts; it tells anew before. After that others delete it: the
	// process is gone, or writes little.
	toldFor = 90 * time.Second
	// settleFor is how long a count of shards is in force before the next one follows.
	settleFor = 4 * time.Minute
	// shardsGrownMax is how many shards a lambda gets by itself: of each priority they take 64,000 write
	// units a second, and cost $3 a month when nothing happens. Whatever wants more is worth a person's look.
	shardsGrownMax = 64
	// loadKind is the kind of the control rows in which processes tell each other.
	loadKind = "load"
)

// keyLoad is how much was written to a partition in a second.
type keyLoad struct {
	task.Partition

	Units     float64
	Throttled bool
}

// toldLoad is the value of a row of loadKind: what one process wrote, and when it told.
type toldLoad struct {
	At    task.Instant
	Loads []keyLoad
}

// grower gives a lambda more shards when one of them takes nearly as many writes, of all processes together,
// as a key of the store can. It goes by the newest shard. The others have as much of what more shards would
// spread, and the rest of theirs (tasks with keys, those placed by an older count) would stay where it is.
type grower struct {
	taken   func() map[task.Partition]store.KeyLoad
	rows    *store.Store
	catalog *catalog.Catalog
	clock   clock.Clock
	log     *slog.Logger
	grown   *prometheus.CounterVec // lambda
	name    string                 // of this process's row
	limit   float64                // write units of a key in a second

	since time.Duration   // when loads were taken last, in monotonic time
	hot   map[uint32]bool // lambdas that were near their limit at the last look
}

// newGrower returns nil where no partition has a limit.
func (n *Node) newGrower(c *Config) *grower {
	taken := c.Store.Capabilities().KeyLoads
	if taken == nil || c.NoGrow {
		return nil
	}
	limit := c.keyUnits
	if limit == 0 {
		limit = keyUnitsMax
	}
	return &grower{
		taken: taken, rows: n.store, catalog: n.catalog, clock: c.Clock, log: c.Log, grown: n.metrics.grown,
		name: fmt.Sprintf("%016x", c.Clock.Uint64()), limit: limit, since: clock.Mono(c.Clock),
	}
}

// run looks until ctx ends.
func (g *grower) run(ctx context.Context) error {
	for clock.Sleep(ctx, g.clock, loadEvery) == nil {
		if err := g.look(ctx); err != nil && ctx.Err() == nil {
			g.log.WarnContext(ctx, "shards not grown", slog.Any("error", err))
		}
	}
	return nil
}

// look makes the shards grow of lambdas that were near their limit at the look before, too. So a short burst
// does not count, nor does what a process told just before it was replaced, in addition to what its successor
// tells.
func (g *grower) look(ctx context.Context) error {
	loads := g.measure()
	before := g.hot
	g.hot = map[uint32]bool{}
	if len(loads) == 0 {
		return nil
	}
	if err := g.share(ctx, loads); err != nil {
		return err
	}
	for _, l := range g.catalog.All() {
		load, near := g.near(l, loads)
		if !near {
			continue
		}
		g.hot[l.Ref] = true
		if !before[l.Ref] {
			continue
		}
		if err := g.grow(ctx, l, load); err != nil {
			return fmt.Errorf("lambda %s: %w", l.Name, err)
		}
	}
	return nil
}

// measure is what this process wrote to the newest shards since it was called last.
func (g *grower) measure() map[task.Partition]keyLoad {
	now := clock.Mono(g.clock)
	seconds := (now - g.since).Seconds()
	g.since = now
	taken, loads := g.taken(), map[task.Partition]keyLoad{}
	for _, l := range g.catalog.All() {
		for priority := range l.Priorities {
			p := newest(l, priority)
			if rate := float64(taken[p].Units) / seconds; rate >= toldMin {
				loads[p] = keyLoad{p, rate, taken[p].Throttled}
			}
		}
	}
	return loads
}

func newest(l *catalog.Entry, priority int) task.Partition {
	return task.Partition{Lambda: l.Ref, Priority: uint8(priority), Shard: l.Shards - 1}
}

// share tells the other processes, and adds what they told.
func (g *grower) share(ctx context.Context, loads map[task.Partition]keyLoad) error {
	rows, err := g.rows.Controls(ctx, loadKind)
	if err != nil {
		return fmt.Errorf("read what others write: %w", err)
	}
	now := g.clock.Now()
	own := toldLoad{At: now}
	for _, load := range loads {
		own.Loads = append(own.Loads, load)
	}
	version := uint64(1)
	for _, row := range rows {
		var told toldLoad
		if row.Name == g.name {
			version = row.Version + 1
			continue
		}
		if json.Unmarshal(row.Value, &told) != nil { // of another version
			continue
		}
		if now.Sub(told.At) > toldFor {
			_ = g.rows.DeleteControl(ctx, row) // or the next time, or somebody else
			continue
		}
		for _, load := range told.Loads {
			sum := loads[load.Partition]
			loads[load.Partition] = keyLoad{load.Partition, sum.Units + load.Units, sum.Throttled || load.Throttled}
		}
	}
	value, err := json.Marshal(own)
	if err == nil {
		err = g.rows.PutControl(ctx, store.Control{Kind: loadKind, Name: g.name, Version: version, Value: value})
	}
	if err != nil {
		return fmt.Errorf("tell what is written here: %w", err)
	}
	return nil
}

// near reports whether more shards would take load off a lambda's, and off which of them.
func (g *grower) near(l *catalog.Entry, loads map[task.Partition]keyLoad) (load keyLoad, near bool) {
	if l.Deleting || l.Shards >= shardsGrownMax || g.clock.Now() < l.ShardsFrom().Add(settleFor) {
		return keyLoad{}, false
	}
	for priority := range l.Priorities {
		load = loads[newest(l, priority)]
		if load.Units >= nearShare*g.limit || load.Throttled && load.Units >= busyShare*g.limit {
			return load, true
		}
	}
	return keyLoad{}, false
}

// grow doubles the shards of a lambda, unless somebody else was faster.
func (g *grower) grow(ctx context.Context, l *catalog.Entry, load keyLoad) error {
	count, grew := min(2*l.Shards, shardsGrownMax), false
	entry, err := g.catalog.Update(ctx, l.Name, func(now *task.Lambda) error {
		if grew = now.Ref == l.Ref && now.Shards == l.Shards && !now.Deleting; !grew {
			return nil
		}
		return now.Grow(count, g.catalog.GrownFrom())
	})
	if err != nil || !grew {
		return err
	}
	g.grown.WithLabelValues(l.Name).Inc()
	g.log.InfoContext(ctx, "shards grow: one is near what a key of the store takes", slog.String("lambda", l.Name),
		slog.Int("from", int(l.Shards)), slog.Int("to", int(count)), slog.Time("in_force", entry.ShardsFrom().Time()),
		slog.String("priority", l.Priorities[load.Priority]), slog.Int("units_a_second", int(load.Units)), slog.Bool("throttled", load.Throttled))
	return nil
}

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// keyUnitsMax is how many write units per second DynamoDB takes for one partition key, as documented.
	keyUnitsMax = 1000
	// nearShare of that is near the limit; the rest has to last the minutes until more shards are in force.
	nearShare = 0.7
	// busyShare of it makes a key busy, whose throttled writes may be its own fault. Below it they are the
	// fault of a table with too little capacity, which more shards would not help.
	busyShare = 0.3
	// reportedMin is the lowest rate that a process reports to the others: hundreds of them may share one
	// key.
	reportedMin = 1
	// measureEvery is how often a process measures its load.
	measureEvery = time.Minute
	// reportLife is how long a report counts. A process replaces its report before; older ones are deleted.
	reportLife = 90 * time.Second
	// growPause is how long a number of shards is in force before it grows again.
	growPause = 4 * time.Minute
	// shardsGrownMax is how many shards a lambda gets by itself. For each priority they take 64,000 write
	// units per second, and cost $3 a month when idle.
	shardsGrownMax = 64
	// loadKind is the kind of the control rows that hold the reports.
	loadKind = "load"
)

// keyLoad is the rate of writes to a partition.
type keyLoad struct {
	task.Partition

	Units     float64 // per second
	Throttled bool
}

// loadReport is the value of a row of loadKind: the loads of one process.
type loadReport struct {
	At    task.Instant
	Loads []keyLoad
}

// grower adds shards to a lambda when one of its shards takes nearly as many writes, of all processes
// together, as a key of the store can. It measures the newest shard: the others have as much of the load that
// more shards would spread, and the rest of theirs (tasks with keys, and those placed by an older count)
// would stay where it is.
type grower struct {
	taken   func() map[task.Partition]store.KeyLoad
	rows    *store.Store
	catalog *catalog.Catalog
	clock   clock.Clock
	log     *slog.Logger
	grown   func(l *catalog.Entry) // is told of each growth
	name    string                 // of this process's row
	limit   float64                // write units of a key per second

	since time.Duration   // monotonic time of the last measurement
	hot   map[uint32]bool // lambdas that were near their limit then
}

// run measures and grows until ctx ends.
func (g *grower) run(ctx context.Context) error {
	for clock.Sleep(ctx, g.clock, measureEvery) == nil {
		if err := g.look(ctx); err != nil && ctx.Err() == nil {
			g.log.WarnContext(ctx, "shards not grown", slog.Any("error", err))
		}
	}
	return nil
}

// look grows the lambdas that are near their limit for the second time in a row. So a short burst does not
// count, nor does the last report of a process that was replaced on top of that of its successor.
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

// measure returns the load of this process on the newest shards since the last call.
func (g *grower) measure() map[task.Partition]keyLoad {
	now := clock.Mono(g.clock)
	seconds := (now - g.since).Seconds()
	g.since = now
	taken, loads := g.taken(), map[task.Partition]keyLoad{}
	for _, l := range g.catalog.All() {
		for priority := range l.Priorities {
			p := newest(l, priority)
			if rate := float64(taken[p].Units) / seconds; rate >= reportedMin {
				loads[p] = keyLoad{p, rate, taken[p].Throttled}
			}
		}
	}
	return loads
}

func newest(l *catalog.Entry, priority int) task.Partition {
	return task.Partition{Lambda: l.Ref, Priority: uint8(priority), Shard: l.Shards - 1}
}

// share reports the loads to the other processes, and adds what those reported.
func (g *grower) share(ctx context.Context, loads map[task.Partition]keyLoad) error {
	rows, err := g.rows.Controls(ctx, loadKind)
	if err != nil {
		return fmt.Errorf("read the load reports: %w", err)
	}
	now := g.clock.Now()
	own := loadReport{At: now}
	for _, load := range loads {
		own.Loads = append(own.Loads, load)
	}
	version := uint64(1)
	for _, row := range rows {
		var report loadReport
		if row.Name == g.name {
			version = row.Version + 1
			continue
		}
		if json.Unmarshal(row.Value, &report) != nil { // of another version
			continue
		}
		if now.Sub(report.At) > reportLife {
			_ = g.rows.DeleteControl(ctx, row) // if it fails, the next one will
			continue
		}
		for _, load := range report.Loads {
			sum := loads[load.Partition]
			loads[load.Partition] = keyLoad{load.Partition, sum.Units + load.Units, sum.Throttled || load.Throttled}
		}
	}
	value, err := json.Marshal(own)
	if err == nil {
		err = g.rows.PutControl(ctx, store.Control{Kind: loadKind, Name: g.name, Version: version, Value: value})
	}
	if err != nil {
		return fmt.Errorf("write the load report: %w", err)
	}
	return nil
}

// near reports whether a shard of a lambda is near its limit, and returns its load.
func (g *grower) near(l *catalog.Entry, loads map[task.Partition]keyLoad) (load keyLoad, near bool) {
	more := l.Lambda
	more.Shards = grown(l)
	if l.Deleting || l.Shards >= shardsGrownMax || g.clock.Now() < l.ShardsFrom().Add(growPause) || g.catalog.CheckBounds(more) != nil {
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

// grown returns how many shards a lambda has after it has grown.
func grown(l *catalog.Entry) uint16 { return min(2*l.Shards, shardsGrownMax) }

// grow doubles the shards of a lambda, unless another process was faster.
func (g *grower) grow(ctx context.Context, l *catalog.Entry, load keyLoad) error {
	count, grew := grown(l), false
	entry, err := g.catalog.Update(ctx, l.Name, func(now *task.Lambda) error {
		if grew = now.Ref == l.Ref && now.Shards == l.Shards && !now.Deleting; !grew {
			return nil
		}
		return now.Grow(count, g.catalog.GrownFrom())
	})
	if err != nil || !grew {
		return err
	}
	g.grown(l)
	g.log.InfoContext(ctx, "adding shards; one is near the write limit of a key", slog.String("lambda", l.Name),
		slog.Int("from", int(l.Shards)), slog.Int("to", int(count)), slog.Time("in_force", entry.ShardsFrom().Time()),
		slog.String("priority", l.Priorities[load.Priority]), slog.Int("units_a_second", int(load.Units)), slog.Bool("throttled", load.Throttled))
	return nil
}

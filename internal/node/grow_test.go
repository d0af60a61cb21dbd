package node

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// loaded is a store that reports a rate of writes.
type loaded struct {
	store.Driver

	rate func(p task.Partition) (units int, throttled bool)
	last time.Time
}

func (l *loaded) Capabilities() store.Capabilities {
	l.last = time.Now()
	return store.Capabilities{KeyLoads: func() map[task.Partition]store.KeyLoad {
		seconds := int(time.Since(l.last).Seconds())
		l.last = time.Now()
		loads := map[task.Partition]store.KeyLoad{}
		for shard := range uint16(task.ShardsMax) {
			p := task.Partition{Lambda: 1, Shard: shard}
			units, throttled := l.rate(p)
			loads[p] = store.KeyLoad{Units: seconds * units, Throttled: throttled}
		}
		return loads
	}}
}

// field is the store and the catalog that growers share.
type field struct {
	*testing.T

	catalog *catalog.Catalog
	metrics *Metrics
	stops   []context.CancelFunc
	rate    atomic.Pointer[func(p task.Partition) (units int, throttled bool)] // of each process
	rows    *store.Store
}

func inField(t *testing.T, processes int, l task.Lambda, rate func(p task.Partition) (units int, throttled bool), test func(*field)) {
	t.Helper()
	inBoundedField(t, catalog.Bounds{}, processes, l, rate, test)
}

func inBoundedField(t *testing.T, bounds catalog.Bounds, processes int, l task.Lambda, rate func(p task.Partition) (units int, throttled bool), test func(*field)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &field{T: t, metrics: NewMetrics(MetricsConfig{})}
		f.rate.Store(&rate)
		rows := storemem.New()
		f.rows = store.New(rows, store.Config{Clock: clock.Real()})
		f.catalog = catalog.New(f.rows, clock.Real(), slog.New(slog.DiscardHandler), catalog.Limits{})
		f.catalog.Bounds = bounds
		l.Name, l.Ref = "mail", 1
		made, _, err := f.catalog.Create(t.Context(), l)
		if err != nil {
			t.Fatal(err)
		}
		for range processes {
			f.start(rows, made.Ref)
		}
		test(f)
		for _, stop := range f.stops {
			stop()
		}
		synctest.Wait()
	})
}

// start runs one more process, for a lambda with a random reference.
func (f *field) start(rows store.Driver, ref uint32) {
	driver := &loaded{Driver: rows, rate: func(p task.Partition) (int, bool) { return (*f.rate.Load())(p) }}
	n := &Node{store: f.rows, catalog: f.catalog, metrics: f.metrics, log: slog.New(slog.DiscardHandler)}
	g := n.newGrower(&Config{Store: driver, Clock: clock.Real(), Log: n.log})
	taken := g.taken
	g.taken = func() map[task.Partition]store.KeyLoad {
		loads := map[task.Partition]store.KeyLoad{}
		for p, load := range taken() {
			p.Lambda = ref
			loads[p] = load
		}
		return loads
	}
	ctx, stop := context.WithCancel(f.Context())
	f.stops = append(f.stops, stop)
	go func() { _ = g.run(ctx) }()
}

func (f *field) want(after time.Duration, shards uint16) {
	f.Helper()
	time.Sleep(after)
	l, err := f.catalog.Lambda("mail")
	if err != nil || l.Shards != shards {
		f.Errorf("%d shards after %v, %v; want %d", l.Shards, after, err, shards)
	}
}

func always(units int, throttled bool) func(task.Partition) (int, bool) {
	return func(task.Partition) (int, bool) { return units, throttled }
}

// TestWhatMakesShardsGrow checks which write rates, of one process or several, lead to more shards.
func TestWhatMakesShardsGrow(t *testing.T) {
	for _, c := range []struct {
		name      string
		processes int
		shards    uint16
		rate      func(task.Partition) (int, bool)
		want      uint16
	}{
		{"near the limit", 1, 4, always(720, false), 8},
		{"less", 1, 4, always(680, false), 4},
		{"busy and throttled", 1, 4, always(320, true), 8},
		{"throttled, and hardly used", 1, 4, always(280, true), 4},
		{"near, of all together", 5, 4, always(145, false), 8},
		{"less, of all together", 5, 4, always(135, false), 4},
		{"throttled, of all together", 5, 1, always(65, true), 2},
		{"throttled everywhere, and hardly used", 20, 1, always(14, true), 1},
		{"tasks with keys, in the shards of once", 1, 4, func(p task.Partition) (int, bool) {
			if p.Shard < 2 {
				return 1000, true
			}
			return 200, false
		}, 4},
		{"at the bound", 1, 64, always(1000, true), 64},
		{"to the bound", 1, 48, always(1000, true), 64},
		{"beyond it by hand", 1, 128, always(1000, true), 128},
	} {
		t.Run(c.name, func(t *testing.T) {
			inField(t, c.processes, task.Lambda{Shards: c.shards}, c.rate, func(f *field) {
				f.want(measureEvery+5*time.Second, c.shards) // not at the first measurement
				f.want(5*time.Minute, c.want)
				grown := growths(f.T, f.metrics)
				if (c.want == c.shards) != (grown == 0) || grown > 1 {
					t.Errorf("counted %v", grown)
				}
			})
		})
	}
}

// growths sums the counters of all processes.
func growths(t *testing.T, all ...*Metrics) (n float64) {
	t.Helper()
	for _, m := range all {
		families, err := m.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			for _, one := range family.GetMetric() {
				if family.GetName() == "kinesin_shards_grown_total" {
					n += one.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}

// TestGrowthsAreApart has a load that no number of shards helps against: each number is in force for a while
// before the next.
func TestGrowthsAreApart(t *testing.T) {
	inField(t, 3, task.Lambda{Shards: 1}, always(400, true), func(f *field) {
		f.want(5*time.Second+2*measureEvery, 2)
		f.want(catalog.GrownAfter+growPause-10*time.Second, 2)
		f.want(3*measureEvery, 4)
		f.want(2*time.Hour, shardsGrownMax)
		if n := growths(f.T, f.metrics); n != 6 {
			t.Errorf("%v growths are counted, want 6", n)
		}
	})
}

// TestGrowthStopsAtABound has room for the shards of one more growth.
func TestGrowthStopsAtABound(t *testing.T) {
	bounds := catalog.Bounds{LambdaPartitions: 2 * len(task.Lambda{}.WithDefaults().Priorities)}
	inBoundedField(t, bounds, 1, task.Lambda{Shards: 1}, always(400, true), func(f *field) { f.want(2*time.Hour, 2) })
}

// TestABurstAndARestartDoNotGrow has more writes than a key takes for one minute, and replaces a process by
// another.
func TestABurstAndARestartDoNotGrow(t *testing.T) {
	inField(t, 1, task.Lambda{Shards: 1}, always(1000, true), func(f *field) {
		time.Sleep(measureEvery + time.Second)
		rate := always(400, false)
		f.rate.Store(&rate)
		f.want(3*measureEvery, 1)
		f.stops[0]()
		l, _ := f.catalog.Lambda("mail")
		f.start(storemem.New(), l.Ref)
		f.want(5*measureEvery, 1)
		f.want(2*time.Hour, 1)
		if rows, err := f.rows.Controls(f.Context(), loadKind); err != nil || len(rows) != 1 {
			t.Errorf("%d rows, %v: want that of the first process gone", len(rows), err)
		}
	})
}

func TestALambdaInDeletionDoesNotGrow(t *testing.T) {
	inField(t, 1, task.Lambda{Shards: 1}, always(1000, true), func(f *field) {
		l, err := f.catalog.Lambda("mail")
		if err == nil {
			_, err = f.catalog.Mark(f.Context(), l, false)
		}
		if err != nil {
			t.Fatal(err)
		}
		f.want(5*time.Minute, 1)
	})
}

// TestShardsGrowByThemselves puts more tasks into a shard than its key takes, and then as many on a table
// with too little capacity for all of them.
func TestShardsGrowByThemselves(t *testing.T) {
	const limit = 20
	for _, c := range []struct {
		name   string
		shards int
		off    bool
		odds   float64 // of a write to be throttled, whatever its key
		every  time.Duration
		grows  bool
	}{
		{name: "one key at its limit", shards: 1, every: time.Second / limit, grows: true},
		{name: "the same, told not to", shards: 1, every: time.Second / limit, off: true},
		{name: "all keys throttled evenly", shards: 8, odds: .3, every: time.Second / limit},
	} {
		t.Run(c.name, func(t *testing.T) {
			aws := cloud{keyUnits: limit}
			config := func(n *Config) {
				remote(n)
				n.keyUnits, n.NoGrow = limit, c.off
			}
			inRig(t, aws.drivers(t), 2, config, func(r *rig) {
				r.lambda(admin.Lambda{Name: "mail", Shards: c.shards})
				aws.tables.Faults.Odds("Statement", awsfake.Throttled, c.odds)
				aws.tables.Faults.Odds("PutItem", awsfake.Throttled, c.odds)
				clients := []*sdk.Client{r.client, r.dial(r.nodes[1].transport)}
				began := time.Now()
				for i := 0; time.Since(began) < 4*time.Minute; i++ {
					r.ended.Go(func() { _, _ = clients[i%2].Schedule(r.ctx, sdk.Item{Lambda: "mail", In: time.Hour}) })
					time.Sleep(c.every)
				}
				l, err := r.admin().Lambdas.Get(r.ctx, "mail")
				if grew := l.Shards > c.shards; err != nil || grew != c.grows {
					t.Errorf("%d shards of %d, %v", l.Shards, c.shards, err)
				}
				if n := growths(t, r.nodes[0].node.metrics, r.nodes[1].node.metrics); (n == 1) != c.grows {
					t.Errorf("%v growths are counted", n)
				}
				aws.tables.Faults.Off()
			})
		})
	}
}

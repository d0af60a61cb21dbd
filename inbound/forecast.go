package inbound

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/overview"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// forecastRowsMin is how many rows of a partition a forecast reads, however many partitions share its budget.
const forecastRowsMin = 100

// forecastPart is what a forecast has read of a partition.
type forecastPart struct {
	partition task.Partition
	due       []int64 // by bucket
	after     store.WakeKey
	more      bool // there are rows after it
	sampled   bool // it was read to its end as one of a random sample
}

// Forecast counts the tasks that may start between some instants, which are in order, by lambda. A backlog
// that is due before the first is not read, so that it leaves the budget to what is coming. Forecast reads
// wake-up rows and at most about rowsMax of them: the next ones of all partitions, which is exact as
// far as it reaches, and with half of that, where lambdas have several shards, all rows of shards that are
// chosen at random, from which it estimates the others. It asks for no grants: who shows it leaves out what
// may not be seen.
func (in *Inbound) Forecast(ctx context.Context, edges []time.Time, rowsMax int) (f overview.Forecast, err error) {
	leave, err := in.enterWholeSet(ctx)
	if err != nil {
		return f, err
	}
	defer leave()
	all := in.Catalog.All()
	f = overview.Forecast{At: in.Clock.Now().Time(), Edges: edges, Lambdas: make([]overview.DueOf, len(all))}
	// Only shards of one lambda and priority are alike.
	var parts []*forecastPart
	alike, of := [][]*forecastPart{}, []int{}
	budget := rowsMax
	for i, l := range all {
		f.Lambdas[i] = overview.DueOf{Lambda: l.Name, Due: make([]int64, len(edges)), Variance: make([]float64, len(edges))}
		group := map[uint8]int{} // places in alike, by priority
		for _, p := range l.Partitions() {
			part := &forecastPart{partition: p, due: make([]int64, len(edges)), more: true, after: store.WakeKey{Wake: task.InstantOf(edges[0]) - 1}}
			at, known := group[p.Priority]
			if known {
				budget = rowsMax / 2 // the other half is for samples
			} else {
				at = len(alike)
				group[p.Priority], alike, of = at, append(alike, nil), append(of, i)
			}
			alike[at], parts = append(alike[at], part), append(parts, part)
		}
	}
	if err := in.forecastNext(ctx, &f, parts, budget); err != nil {
		return f, err
	}
	for _, i := range in.shuffled(len(alike)) {
		if err := in.forecastSample(ctx, &f, alike[i], rowsMax); err != nil {
			return f, err
		}
	}
	for i, shards := range alike {
		forecastSum(&f.Lambdas[of[i]], shards, edges)
	}
	return f, nil
}

// forecastNext reads the next rows of all partitions: as many as the budget has.
// Partitions with few rows leave the rest of their shares to the others.
func (in *Inbound) forecastNext(ctx context.Context, f *overview.Forecast, parts []*forecastPart, budget int) error {
	for len(parts) > 0 {
		share := max((budget-f.Rows)/len(parts), forecastRowsMin)
		if f.Rows > 0 && share*len(parts) > budget-f.Rows {
			return nil
		}
		unread := parts[:0:0]
		for _, p := range parts {
			if err := in.forecastPart(ctx, f, p, share); err != nil {
				return err
			}
			if p.more {
				unread = append(unread, p)
			}
		}
		parts = unread
	}
	return nil
}

// forecastSample reads shards to their ends, in random order, as long as the budget lasts. A shard that has more rows than
// that is no part of the sample.
func (in *Inbound) forecastSample(ctx context.Context, f *overview.Forecast, parts []*forecastPart, rowsMax int) error {
	for _, i := range in.shuffled(len(parts)) {
		p := parts[i]
		if !p.more {
			continue
		}
		if err := in.forecastPart(ctx, f, p, rowsMax-f.Rows); err != nil {
			return err
		}
		if p.more {
			return nil
		}
		p.sampled = true
	}
	return nil
}

// shuffled returns the numbers below n in random order.
func (in *Inbound) shuffled(n int) []int {
	return rand.New(rand.NewPCG(in.Clock.Uint64(), in.Clock.Uint64())).Perm(n) //nolint:gosec // no secret
}

// forecastSum adds up shards that are alike. If some were not read to their ends, the shards of the sample stand for these in
// the buckets for which not all rows were read.
func forecastSum(of *overview.DueOf, shards []*forecastPart, edges []time.Time) {
	var sample, unread []*forecastPart
	var until time.Time
	for _, p := range shards {
		for bucket, n := range p.due {
			of.Due[bucket] += n
		}
		if p.sampled {
			sample = append(sample, p)
		}
		if p.more {
			unread = append(unread, p)
			if at := p.after.Wake.Time(); until.IsZero() || at.Before(until) {
				until = at
			}
		}
	}
	switch {
	case len(unread) == 0:
		return
	case len(sample) == 0:
		if of.Until.IsZero() || until.Before(of.Until) {
			of.Until = until
		}
		return
	}
	for bucket := range edges {
		if !edges[bucket].After(until) {
			continue // counted
		}
		counted, mean := int64(0), 0.0
		for _, p := range unread {
			counted += p.due[bucket]
		}
		for _, p := range sample {
			mean += float64(p.due[bucket]) / float64(len(sample))
		}
		of.Due[bucket] += max(0, int64(math.Round(mean*float64(len(unread))))-counted)
		of.Variance[bucket] += forecastVariance(sample, bucket, mean, float64(len(unread)))
	}
}

// forecastVariance returns the variance of the estimate for partitions that were not read: of their own
// counts, which are about those of a Poisson distribution or as unlike each other as those of the sample, and
// of the mean of the sample.
func forecastVariance(sample []*forecastPart, bucket int, mean, unread float64) float64 {
	size := float64(len(sample))
	between := 0.0
	for _, p := range sample {
		between += (float64(p.due[bucket]) - mean) * (float64(p.due[bucket]) - mean) / max(1, size-1)
	}
	return max(mean, between) * (unread + unread*unread/size)
}

// forecastPart reads on in a partition, rowsMax rows at most.
func (in *Inbound) forecastPart(ctx context.Context, f *overview.Forecast, p *forecastPart, rowsMax int) error {
	through := task.InstantOf(f.Edges[len(f.Edges)-1])
	for read := 0; read < rowsMax; {
		limit := min(rowsMax-read, setRowsRead)
		wakeups, err := in.Store.ScanSchedule(ctx, p.partition, p.after, through, limit)
		if err != nil {
			return err
		}
		if err := in.forecastRows(ctx, wakeups, f.Edges, p.due); err != nil {
			return err
		}
		read += len(wakeups)
		f.Rows += len(wakeups)
		if p.more = len(wakeups) == limit; !p.more {
			return nil
		}
		p.after = store.KeyOf(&wakeups[len(wakeups)-1])
	}
	return nil
}

// forecastRows puts the tasks of wake-up rows into their buckets. Rows that are tasks which nobody has
// dispatched, and that come up later than any call can take, are taken as they are: to read what is behind
// them takes most of the time, and finds that they wait, since what ends such a task deletes the row with it.
func (in *Inbound) forecastRows(ctx context.Context, wakeups []task.Task, edges []time.Time, due []int64) error {
	count := func(t *task.Task) {
		start, waits := startOf(t)
		at, onEdge := slices.BinarySearchFunc(edges, start.Time(), time.Time.Compare)
		if onEdge { // what is due at midnight is of the day that begins then
			at++
		}
		if waits && at < len(edges) {
			due[at]++
		}
	}
	soon, unsure := in.Clock.Now().Add(store.CallMax), wakeups[:0:0]
	for i := range wakeups {
		if w := &wakeups[i]; w.IsBare() || w.Wake <= soon {
			unsure = append(unsure, *w)
		} else {
			count(w)
		}
	}
	tasks, err := in.tasksBehind(ctx, unsure)
	if err != nil {
		return err
	}
	for i := range tasks {
		if tasks[i].ID.IsZero() {
			continue
		}
		count(&tasks[i].Task)
	}
	return nil
}

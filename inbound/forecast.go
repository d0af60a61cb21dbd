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

// Forecast counts the tasks that may start until each of some instants, which are in order, by lambda. It
// reads wake-up rows and at most about rowsMax of them: with half of that the next ones of all partitions,
// which is exact as far as it reaches, and with the other half all rows of partitions that are chosen at
// random, from which it estimates the others. It asks for no grants: who shows it leaves out what may not be
// seen.
func (in *Inbound) Forecast(ctx context.Context, edges []time.Time, rowsMax int) (f overview.Forecast, err error) {
	leave, err := in.enterWholeSet()
	if err != nil {
		return f, err
	}
	defer leave()
	all := in.Catalog.All()
	f = overview.Forecast{At: in.Clock.Now().Time(), Edges: edges, Lambdas: make([]overview.DueOf, len(all))}
	parts, byLambda := []*forecastPart{}, make([][]*forecastPart, len(all))
	for i, l := range all {
		for _, p := range l.Partitions() {
			byLambda[i] = append(byLambda[i], &forecastPart{partition: p, due: make([]int64, len(edges)), more: true})
		}
		parts = append(parts, byLambda[i]...)
	}
	if err := in.forecastNext(ctx, &f, parts, rowsMax); err != nil {
		return f, err
	}
	for _, i := range in.shuffled(len(all)) {
		if err := in.forecastSample(ctx, &f, byLambda[i], rowsMax); err != nil {
			return f, err
		}
	}
	for i, l := range all {
		f.Lambdas[i] = forecastSum(l.Name, byLambda[i], edges)
	}
	return f, nil
}

// forecastNext reads the next rows of all partitions: all there are if rowsMax suffices, or else half of it.
// What partitions with few rows leave of their shares goes to the others.
func (in *Inbound) forecastNext(ctx context.Context, f *overview.Forecast, parts []*forecastPart, rowsMax int) error {
	budget := rowsMax / 2
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

// forecastSample reads partitions of a lambda to their ends, in random order, as long as the budget lasts. One
// that has more rows than that is no part of the sample.
func (in *Inbound) forecastSample(ctx context.Context, f *overview.Forecast, parts []*forecastPart, rowsMax int) error {
	for _, i := range in.shuffled(len(parts)) {
		p := parts[i]
		if !p.more {
			continue
		}
		exact := *p
		exact.due = slices.Clone(p.due)
		if err := in.forecastPart(ctx, f, p, rowsMax-f.Rows); err != nil {
			return err
		}
		if p.more {
			*p = exact
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

// forecastSum adds up the partitions of a lambda. If some were not read to their ends, those of the sample
// stand for them in the buckets that not all were read of.
func forecastSum(lambda string, parts []*forecastPart, edges []time.Time) overview.DueOf {
	of := overview.DueOf{Lambda: lambda, Due: make([]int64, len(edges))}
	var sample []*forecastPart
	unread := 0.0
	for _, p := range parts {
		for bucket, n := range p.due {
			of.Due[bucket] += n
		}
		if p.sampled {
			sample = append(sample, p)
		}
		if p.more {
			unread++
			if until := p.after.Wake.Time(); of.Until.IsZero() || until.Before(of.Until) {
				of.Until = until
			}
		}
	}
	if unread == 0 || len(sample) == 0 {
		return of
	}
	of.Variance = make([]float64, len(edges))
	for bucket := range edges {
		if !edges[bucket].After(of.Until) {
			continue // counted
		}
		counted, mean := int64(0), 0.0
		for _, p := range parts {
			if p.more {
				counted += p.due[bucket]
			}
		}
		for _, p := range sample {
			mean += float64(p.due[bucket]) / float64(len(sample))
		}
		of.Due[bucket] += max(0, int64(math.Round(mean*unread))-counted)
		of.Variance[bucket] = forecastVariance(sample, bucket, mean, unread)
	}
	return of
}

// forecastVariance returns the variance of the estimate for partitions that were not read: of their own counts,
// which are about those of a Poisson distribution or as unlike each other as those of the sample, and of the
// mean of the sample.
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

// forecastRows puts the tasks of wake-up rows into their buckets.
func (in *Inbound) forecastRows(ctx context.Context, wakeups []task.Task, edges []time.Time, due []int64) error {
	tasks, err := in.tasksBehind(ctx, wakeups)
	if err != nil {
		return err
	}
	for i := range tasks {
		if tasks[i].ID.IsZero() {
			continue
		}
		start, waits := startOf(&tasks[i].Task)
		if !waits {
			continue
		}
		at, _ := slices.BinarySearchFunc(edges, start.Time(), time.Time.Compare)
		if at < len(edges) {
			due[at]++
		}
	}
	return nil
}

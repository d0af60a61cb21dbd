package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

// BrakeConfig configures the measurement of one brake on one lambda, with a worker in this process.
type BrakeConfig struct {
	*Server

	Lambda       string        // is created
	Tasks        int           // those that are held back, or of low priority
	Slots        int           // of the worker
	PayloadBytes int           // at least 8
	Ahead        time.Duration // from the start of an insertion to the due time; 0: enough for the embedded store
	Duration     time.Duration // over which rates are counted where tasks do not run out
	Pace         int           // of a resume
}

// Validate refuses invalid values.
func (c *BrakeConfig) Validate() error {
	load := Config{Kind: Wall, Tasks: c.Tasks, Slots: c.Slots, PayloadBytes: c.PayloadBytes, Batch: 1, Ahead: c.Ahead}
	return errors.Join(
		load.Validate(),
		within("duration", c.Duration, 4*time.Second, durationMax),
		within("pace", c.Pace, 1, paceMax),
	)
}

// Figure is one thing that was measured.
type Figure struct {
	Case  string  `json:"case"`
	Name  string  `json:"figure"`
	Value float64 `json:"value"`
}

// BrakeCases are those of `kinesin-bench brakes`.
func BrakeCases() []string {
	return []string{"high-behind-low", "strict", "weights", "pause", "drop", "no-workers"}
}

// Brake measures a case. The figures are valid only without an error.
func Brake(ctx context.Context, name string, c *BrakeConfig) ([]Figure, error) {
	measure := map[string]func(*brake, context.Context) error{
		"high-behind-low": (*brake).highBehindLow, "strict": (*brake).strict, "weights": (*brake).weighted,
		"pause": (*brake).pause, "drop": (*brake).drop, "no-workers": (*brake).noWorkers,
	}[name]
	if measure == nil {
		return nil, fmt.Errorf("%w: unknown case %q", ErrConfig, name)
	}
	b := &brake{BrakeConfig: c, name: name}
	err := measure(b, ctx)
	return b.figures, err
}

// brake is a measurement in progress.
type brake struct {
	*BrakeConfig

	name    string
	seen    *record
	figures []Figure
}

func (b *brake) figure(name string, value float64) {
	b.figures = append(b.figures, Figure{b.name, name, value})
}

// group is the tasks with the numbers from one up to another.
type group struct {
	from, to int
	item     sdk.Item // of all of them, but for their due time and payload
}

func (g group) size() int { return g.to - g.from }

// due returns when tasks are due that are inserted now.
func (b *brake) due(tasks int) time.Time {
	ahead := b.Ahead
	if ahead == 0 {
		ahead = aheadBase + time.Duration(tasks)*2*aheadPerTask
	}
	return time.Now().Add(ahead).Truncate(time.Millisecond)
}

// insert schedules the tasks of a group, in batches and several calls at a time.
func (b *brake) insert(ctx context.Context, g group, due time.Time) (ids []sdk.ID, err error) {
	const batch = 1000
	ids = make([]sdk.ID, g.size())
	var calls errgroup.Group
	calls.SetLimit(callersMax)
	for from := g.from; from < g.to && ctx.Err() == nil; from += batch {
		calls.Go(func() error {
			items := make([]sdk.Item, min(batch, g.to-from))
			for i, payload := range payloads(len(items), b.PayloadBytes, func(i int) uint64 { return uint64(from + i) }) {
				b.seen.due[from+i] = due.UnixMicro()
				items[i] = g.item
				items[i].At, items[i].Payload = due, payload
			}
			results, err := b.Client.ScheduleMany(ctx, items)
			for i := range results {
				ids[from-g.from+i] = results[i].ID
			}
			return err
		})
	}
	return ids, calls.Wait()
}

// insertBefore is insert of tasks of which none may be due before all are there.
func (b *brake) insertBefore(ctx context.Context, due time.Time, groups ...group) error {
	for _, g := range groups {
		if _, err := b.insert(ctx, g, due); err != nil {
			return err
		}
	}
	if late := time.Since(due); late > 0 {
		return fmt.Errorf("scheduling took %v longer than there was time before the tasks were due: choose fewer, or a longer --ahead", late)
	}
	return clock.Sleep(ctx, clock.Real(), time.Until(due))
}

// work runs a worker for some lambdas until ctx ends. Each task takes a while.
func (b *brake) work(ctx context.Context, takes time.Duration, lambdas ...string) {
	w := sdk.NewWorker(b.Client, sdk.Slots(b.Slots), sdk.Grace(time.Second))
	for _, name := range lambdas {
		sdk.NewLambda[[]byte](name).Handle(w, func(ctx context.Context, t *sdk.Task[[]byte]) error {
			b.seen.start(t.Args, time.Now())
			if takes > 0 {
				return clock.Sleep(ctx, clock.Real(), takes)
			}
			return nil
		})
	}
	go func() { _ = w.Run(ctx) }() // what does not start is noticed by who waits for it
}

// lookEvery is how often it is looked whether the tasks of a group have started.
const lookEvery = 100 * time.Millisecond

// await waits until all tasks of a group have started, or an error says that none has for a while.
func (b *brake) await(ctx context.Context, g group) error {
	before, since := 0, time.Now()
	for {
		started := len(b.starts(g))
		switch {
		case started == g.size():
			return nil
		case started > before:
			before, since = started, time.Now()
		case time.Since(since) > patienceBase:
			return fmt.Errorf("%d of %d tasks have started, and none for %v", started, g.size(), patienceBase)
		}
		if err := clock.Sleep(ctx, clock.Real(), lookEvery); err != nil {
			return err
		}
	}
}

// starts returns when the tasks of a group started, sorted, in Unix microseconds.
func (b *brake) starts(g group) (all []int64) {
	for i := g.from; i < g.to; i++ {
		if at := b.seen.starts[i].Load(); at != 0 {
			all = append(all, at)
		}
	}
	slices.Sort(all)
	return all
}

// lateness returns how late the tasks of a group started, sorted, in microseconds.
func (b *brake) lateness(g group) (all []int64) {
	for i := g.from; i < g.to; i++ {
		if at := b.seen.starts[i].Load(); at != 0 {
			all = append(all, at-b.seen.due[i])
		}
	}
	slices.Sort(all)
	return all
}

// rateSince returns the starts of a group per second, from a time to the last of them.
func (b *brake) rateSince(g group, from time.Time) float64 {
	starts := b.starts(g)
	if len(starts) == 0 {
		return 0
	}
	return perSecond(len(starts), time.UnixMicro(starts[len(starts)-1]).Sub(from).Seconds())
}

// between returns how many of sorted times are in a period.
func between(sorted []int64, from, to time.Time) int {
	first, _ := slices.BinarySearch(sorted, from.UnixMicro())
	end, _ := slices.BinarySearch(sorted, to.UnixMicro())
	return end - first
}

func (b *brake) create(ctx context.Context, l admin.Lambda) error {
	_, _, err := admin.New(b.Client).Lambdas.Create(ctx, l)
	return err
}

// Figures are what several cases measured.
type Figures []Figure

// Print writes the figures for people.
func (all Figures) Print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, err := fmt.Fprintln(t, "case\tfigure\tvalue")
	for _, f := range all {
		if err == nil {
			_, err = fmt.Fprintf(t, "%s\t%s\t%s\n", f.Case, f.Name, valueText(f.Value))
		}
	}
	return errors.Join(err, t.Flush())
}

func valueText(v float64) string {
	if v != 0 && math.Abs(v) < 10 {
		return strconv.FormatFloat(v, 'f', 4, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}

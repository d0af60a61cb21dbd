package load

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

// ChainsConfig is a run of chains that are all due at once, of as many tasks without chains, and of chains at
// a pace that the server keeps up with.
type ChainsConfig struct {
	*Server

	Lambda   string
	Chains   int
	Steps    int // of each
	Slots    int
	Rate     int           // steps a second while lateness is measured
	Duration time.Duration // of that
	Ahead    time.Duration // from when all are scheduled to when they are due
	Progress Progress
}

// Validate refuses invalid values.
func (c *ChainsConfig) Validate() error {
	return errors.Join(
		within("chains", c.Chains, 1, chainsMax),
		within("steps", c.Steps, 1, task.ChainDepthMax),
		within("workers", c.Slots, 1, SlotsMax),
		within("steps a second", c.Rate, 1, rateMax),
		within("duration", c.Duration, time.Second, durationMax),
		within("time ahead", c.Ahead, time.Second, durationMax),
	)
}

// ChainsReport is what a run came to.
type ChainsReport struct {
	Chains       int     `json:"chains"`
	Steps        int     `json:"steps"` // of each
	Workers      int     `json:"workers"`
	Seconds      float64 `json:"seconds"` // from when they are due to the last end
	Rate         float64 `json:"steps_per_second"`
	CPU          float64 `json:"server_cpu_seconds_per_1000"`
	PlainSeconds float64 `json:"plain_seconds"`
	PlainRate    float64 `json:"plain_per_second"`
	PlainCPU     float64 `json:"plain_server_cpu_seconds_per_1000"`
	Ratio        float64 `json:"ratio"` // of Rate to PlainRate

	// Lateness is from the end of a step's handler to the start of the next step: at a pace, and while all
	// chains run at once, when a step also waits for a free slot.
	PacedRate       float64 `json:"paced_steps_per_second"`
	LatenessP50     float64 `json:"lateness_p50_ms"`
	LatenessP99     float64 `json:"lateness_p99_ms"`
	FullLatenessP50 float64 `json:"full_lateness_p50_ms"`
	FullLatenessP99 float64 `json:"full_lateness_p99_ms"`

	Lost    int `json:"lost"`    // steps that never started
	Doubled int `json:"doubled"` // steps that started twice

	Groups *GroupsReport `json:"groups,omitempty"`
}

// stepRecord holds when each step of a part of a run started and ended, in Unix microseconds.
type stepRecord struct {
	steps   int
	starts  []atomic.Int64
	ends    []atomic.Int64
	left    atomic.Int64
	doubled atomic.Int64
	moved   chan struct{}
}

func newStepRecord(chains, steps int) *stepRecord {
	n := chains * steps
	r := &stepRecord{steps: steps, starts: make([]atomic.Int64, n), ends: make([]atomic.Int64, n), moved: make(chan struct{}, 1)}
	r.left.Store(int64(n))
	return r
}

func (r *stepRecord) run(payload []byte) error {
	now := time.Now().UnixMicro()
	if len(payload) != indexBytes || binary.LittleEndian.Uint64(payload) >= uint64(len(r.starts)) {
		return errors.New("a payload that was not scheduled")
	}
	i := binary.LittleEndian.Uint64(payload)
	if !r.starts[i].CompareAndSwap(0, now) {
		r.doubled.Add(1)
		return nil
	}
	r.ends[i].Store(time.Now().UnixMicro())
	r.left.Add(-1)
	poke(r.moved)
	return nil
}

// await waits until all steps have run. Steps that do not start for long are counted as lost, which is no
// error.
func (r *stepRecord) await(ctx context.Context, patience time.Duration) error {
	for r.left.Load() > 0 {
		if err := await(ctx, r.moved, patience); errors.Is(err, errPatience) {
			return nil
		} else if err != nil {
			return err
		}
		_ = clock.Sleep(ctx, clock.Real(), 5*time.Millisecond) // rather than at each task
	}
	return nil
}

func (r *stepRecord) last() time.Time {
	var last int64
	for i := range r.ends {
		last = max(last, r.ends[i].Load())
	}
	return time.UnixMicro(last)
}

// lateness returns the lateness of all steps but the first of each chain, sorted.
func (r *stepRecord) lateness() []int64 {
	var late []int64
	for i := range r.starts {
		if i%r.steps == 0 {
			continue
		}
		if at := r.starts[i].Load(); at != 0 {
			late = append(late, at-r.ends[i-1].Load())
		}
	}
	slices.Sort(late)
	return late
}

// chainsRun is a run in progress.
type chainsRun struct {
	ChainsConfig

	now    atomic.Pointer[stepRecord]
	report ChainsReport
}

// RunChains measures chains, and then as many tasks without one.
func RunChains(ctx context.Context, c ChainsConfig) (ChainsReport, error) {
	r := &chainsRun{ChainsConfig: c, report: ChainsReport{Chains: c.Chains, Steps: c.Steps, Workers: c.Slots}}
	if _, _, err := admin.New(c.Client).Lambdas.Create(ctx, admin.Lambda{Name: c.Lambda, Priorities: []string{"normal"}}); err != nil {
		return r.report, err
	}
	w := sdk.NewWorker(c.Client, sdk.Slots(c.Slots), sdk.Grace(time.Second))
	w.Register(c.Lambda, func(_ context.Context, t *sdk.Task[[]byte]) error { return r.now.Load().run(t.Args) })
	err := withWorker(ctx, w, r.measure)
	return r.report, err
}

func (r *chainsRun) measure(ctx context.Context) error {
	for _, part := range []func(context.Context) error{r.warmUp, r.atOnce, r.plain, r.paced} {
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (r *chainsRun) warmUp(ctx context.Context) error {
	r.begin(1, 1)
	if _, err := r.Client.ScheduleMany(ctx, r.chains(1, 1, time.Now)); err != nil {
		return err
	}
	return r.now.Load().await(ctx, patienceBase)
}

// atOnce has all chains begin at one instant.
func (r *chainsRun) atOnce(ctx context.Context) error {
	o, err := r.wall(ctx, r.Chains, r.Steps)
	r.report.Seconds, r.report.Rate, r.report.CPU = o.seconds, o.rate, o.cpu
	late := r.now.Load().lateness()
	r.report.FullLatenessP50, r.report.FullLatenessP99 = percentile(late, .5), percentile(late, .99)
	return err
}

// plain has as many tasks without chains run.
func (r *chainsRun) plain(ctx context.Context) error {
	o, err := r.wall(ctx, r.Chains*r.Steps, 1)
	r.report.PlainSeconds, r.report.PlainRate, r.report.PlainCPU = o.seconds, o.rate, o.cpu
	if o.rate > 0 {
		r.report.Ratio = r.report.Rate / o.rate
	}
	return err
}

type wallOutcome struct{ seconds, rate, cpu float64 }

// wall has chains begin at one instant, and measures until their last ends.
func (r *chainsRun) wall(ctx context.Context, chains, steps int) (o wallOutcome, err error) {
	r.begin(chains, steps)
	due := time.Now().Add(r.Ahead).Truncate(time.Millisecond)
	if _, err := r.Client.ScheduleMany(ctx, r.chains(chains, steps, func() time.Time { return due })); err != nil {
		return o, err
	}
	left := time.Until(due)
	if left < 0 {
		return o, fmt.Errorf("the last chain was scheduled %v after its due time: want a longer --ahead", -left.Round(time.Millisecond))
	}
	r.Progress.note("%d chains of %d are scheduled", chains, steps)
	if err := clock.Sleep(ctx, clock.Real(), left); err != nil {
		return o, err
	}
	if o.cpu, err = r.cpuOf(ctx, chains*steps, func() error { return r.finish(ctx) }); err != nil {
		return o, err
	}
	o.seconds = r.now.Load().last().Sub(due).Seconds()
	o.rate = perSecond(chains*steps, o.seconds)
	return o, nil
}

// paced has chains begin at random milliseconds, so that a step waits for nothing but the end of the one
// before.
func (r *chainsRun) paced(ctx context.Context) error {
	chains := max(1, int(float64(r.Rate)*r.Duration.Seconds())/r.Steps)
	r.begin(chains, r.Steps)
	first := time.Now().Add(r.Ahead)
	due := func() time.Time {
		return first.Add(time.Duration(rand.Int64N(int64(r.Duration)))).Truncate(time.Millisecond) //nolint:gosec // a load, no secret
	}
	if _, err := r.Client.ScheduleMany(ctx, r.chains(chains, r.Steps, due)); err != nil {
		return err
	}
	r.Progress.note("%d chains of %d begin at %d steps/s", chains, r.Steps, r.Rate)
	if err := r.finish(ctx); err != nil {
		return err
	}
	late := r.now.Load().lateness()
	r.report.PacedRate = perSecond(chains*r.Steps, r.now.Load().last().Sub(first).Seconds())
	r.report.LatenessP50, r.report.LatenessP99 = percentile(late, .5), percentile(late, .99)
	return nil
}

func (r *chainsRun) begin(chains, steps int) { r.now.Store(newStepRecord(chains, steps)) }

// finish waits for all steps, and a little longer for those that start twice.
func (r *chainsRun) finish(ctx context.Context) error {
	s := r.now.Load()
	if err := s.await(ctx, r.Ahead+r.Duration+patienceBase); err != nil {
		return err
	}
	err := clock.Sleep(ctx, clock.Real(), settleFor/10) // for the last results
	r.report.Lost += int(s.left.Load())
	r.report.Doubled += int(s.doubled.Load())
	return err
}

// chains returns chains of which each task has its number, in the order of chains and steps, as its payload.
func (r *chainsRun) chains(n, steps int, due func() time.Time) []sdk.Item {
	numbers := payloads(n*steps, indexBytes, func(i int) uint64 { return uint64(i) })
	all := make([]sdk.Item, n)
	for i := range all {
		var then []sdk.Item
		for step := steps - 1; step > 0; step-- {
			then = []sdk.Item{{Lambda: r.Lambda, Payload: numbers[i*steps+step], Then: then}}
		}
		all[i] = sdk.Item{Lambda: r.Lambda, At: due(), Payload: numbers[i*steps], Then: then}
	}
	return all
}

// Print writes the report for people.
func (o *ChainsReport) Print(w io.Writer) error {
	_, err := fmt.Fprintf(w, `chains: %d of %d steps with %d workers
ended in %.3f s, %.0f steps/s; as many plain tasks in %.3f s, %.0f/s; ratio %.2f
CPU-seconds of the server per 1,000: %.4f of steps, %.4f of plain tasks
lateness of a step ms: p50 %.3f, p99 %.3f at %.0f steps/s; p50 %.0f, p99 %.0f with all chains at once
lost %d, doubled %d
`, o.Chains, o.Steps, o.Workers, o.Seconds, o.Rate, o.PlainSeconds, o.PlainRate, o.Ratio, o.CPU, o.PlainCPU,
		o.LatenessP50, o.LatenessP99, o.PacedRate, o.FullLatenessP50, o.FullLatenessP99, o.Lost, o.Doubled)
	if err == nil && o.Groups != nil {
		err = o.Groups.Print(w)
	}
	return err
}

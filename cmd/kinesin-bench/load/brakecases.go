package load

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// highRate and highMax are how many tasks of high priority are scheduled behind those of low priority,
	// per second and at most.
	highRate, highMax = 200, 2000
	// slotTakes is how long a task takes where workers are to be what is short.
	slotTakes = 45 * time.Millisecond
	// waves are how often others start beside what is paused, and without it.
	waves = 3
	// othersShare is how many tasks there are for one of the others.
	othersShare = 5
	// dropSample is of how many dropped tasks one is looked at.
	dropSample = 500
	// timeouts is for how many times the enqueue timeout there are no workers.
	timeouts = 10

	brakeReason = "benchmark of brakes"

	// sentAgain counts the tasks of all lambdas that were put on their queue again.
	sentAgain = `kinesin_wakeups_total{event="enqueue"}`
)

// highBehindLow has tasks of high priority due at once while a backlog of low ones drains.
func (b *brake) highBehindLow(ctx context.Context) error {
	n := max(1, b.Tasks/2)
	low := group{0, n, sdk.Item{Lambda: b.Lambda, Priority: "low"}}
	high := group{n, n + highMax, sdk.Item{Lambda: b.Lambda, Priority: "high"}}
	b.seen = newRecord(high.to)
	if err := b.create(ctx, admin.Lambda{Name: b.Lambda, Priorities: []string{"high", "low"}}); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	b.work(ctx, 0, b.Lambda)
	due := b.due(n)
	if err := b.insertBefore(ctx, due, low); err != nil {
		return err
	}
	at := high.from
	for began := time.Now(); at < high.to && len(b.starts(low)) < n; at++ {
		one := group{at, at + 1, high.item}
		if _, err := b.insert(ctx, one, time.Now().Truncate(time.Millisecond)); err != nil {
			return err
		}
		if err := clock.Sleep(ctx, clock.Real(), time.Until(began.Add(time.Duration(at-high.from)*time.Second/highRate))); err != nil {
			return err
		}
	}
	high.to = at
	for _, g := range []group{high, low} {
		if err := b.await(ctx, g); err != nil {
			return err
		}
	}
	late := b.lateness(high)
	b.figure("low_tasks", float64(n))
	b.figure("low_per_second", b.rateSince(low, due))
	b.figure("high_tasks", float64(len(late)))
	b.figure("high_late_p50_ms", percentile(late, .50))
	b.figure("high_late_p99_ms", percentile(late, .99))
	b.figure("high_late_max_ms", percentile(late, 1))
	return nil
}

func (b *brake) strict(ctx context.Context) error { return b.share(ctx, nil) }

func (b *brake) weighted(ctx context.Context) error {
	return b.share(ctx, map[string]int{"high": 8, "low": 1})
}

// share has more tasks of high priority due than there are slots, and as many of low priority.
func (b *brake) share(ctx context.Context, weights map[string]int) error {
	n := min(b.Tasks, int(1.2*float64(b.Slots)*b.Duration.Seconds()/slotTakes.Seconds()))
	high := group{0, n, sdk.Item{Lambda: b.Lambda, Priority: "high"}}
	low := group{n, 2 * n, sdk.Item{Lambda: b.Lambda, Priority: "low"}}
	b.seen = newRecord(low.to)
	if err := b.create(ctx, admin.Lambda{Name: b.Lambda, Priorities: []string{"high", "low"}, PriorityWeights: weights}); err != nil {
		return err
	}
	due := b.due(2 * n)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	b.work(ctx, slotTakes, b.Lambda)
	if err := b.insertBefore(ctx, due, high, low); err != nil {
		return err
	}
	if err := clock.Sleep(ctx, clock.Real(), b.Duration); err != nil {
		return err
	}
	from, to := due.Add(time.Second), due.Add(b.Duration)
	b.figure("high_per_second", perSecond(between(b.starts(high), from, to), to.Sub(from).Seconds()))
	b.figure("low_per_second", perSecond(between(b.starts(low), from, to), to.Sub(from).Seconds()))
	return nil
}

// pause has a collection overdue behind a gate, others of the lambda start beside it and others of another
// lambda, whose gate holds nothing, without, and then has the gate resume at a pace.
func (b *brake) pause(ctx context.Context) error {
	free := b.Lambda + "-free"
	m := max(1, b.Tasks/othersShare)
	held := group{0, b.Tasks, sdk.Item{Lambda: b.Lambda, Collection: "held"}}
	b.seen = newRecord(held.to + 2*waves*m)
	var gate admin.Gate
	for _, name := range []string{free, b.Lambda} {
		if err := b.create(ctx, admin.Lambda{Name: name, Priorities: []string{"normal"}}); err != nil {
			return err
		}
		var err error
		if gate, err = admin.New(b.Client).Gates.Create(ctx, admin.Gate{Action: admin.GatePause, Lambda: name, Collection: "held", Reason: brakeReason}); err != nil {
			return err
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	b.work(ctx, 0, b.Lambda, free)
	due := b.due(held.size())
	if _, err := b.insert(ctx, held, due); err != nil {
		return err
	}
	if err := clock.Sleep(ctx, clock.Real(), time.Until(due)); err != nil {
		return err
	}
	rates, cpu := map[string][]float64{}, map[string][]float64{}
	for wave := range 2 * waves {
		from := held.to + wave*m
		g := group{from, from + m, sdk.Item{Lambda: []string{free, b.Lambda}[wave%2], Collection: "others"}}
		due := b.due(m)
		if err := b.insertBefore(ctx, due, g); err != nil {
			return err
		}
		used, err := b.cpuOf(ctx, m, func() error { return b.await(ctx, g) })
		if err != nil {
			return err
		}
		rates[g.item.Lambda] = append(rates[g.item.Lambda], b.rateSince(g, due))
		cpu[g.item.Lambda] = append(cpu[g.item.Lambda], used)
	}
	without, beside := median(rates[free]), median(rates[b.Lambda])
	b.figure("held_tasks", float64(held.size()))
	b.figure("others_per_second_without", without)
	b.figure("others_per_second_beside", beside)
	b.figure("slower_percent", 100*(1-beside/without))
	b.figure("cpu_seconds_per_1000_without", median(cpu[free]))
	b.figure("cpu_seconds_per_1000_beside", median(cpu[b.Lambda]))
	if early := len(b.starts(held)); early > 0 {
		return fmt.Errorf("%d tasks started behind the gate", early)
	}
	return b.resume(ctx, gate.ID, held)
}

// resume lets a gate's tasks go at the pace.
func (b *brake) resume(ctx context.Context, gate string, held group) error {
	resumed := time.Now()
	if _, err := admin.New(b.Client).Gates.Resume(ctx, gate, admin.GateResumeOptions{Pace: b.Pace}); err != nil {
		return err
	}
	lasts := min(b.Duration, time.Duration(float64(held.size())/float64(b.Pace)*float64(time.Second))).Truncate(time.Second)
	if err := clock.Sleep(ctx, clock.Real(), lasts); err != nil {
		return err
	}
	starts := b.starts(held)
	b.figure("resume_pace", float64(b.Pace))
	b.figure("resumed_per_second", perSecond(between(starts, resumed, resumed.Add(lasts)), lasts.Seconds()))
	slowest, fastest := math.Inf(1), 0.0
	for second := 2 * time.Second; second < lasts; second += time.Second { // in the first two the pace sets in
		n := float64(between(starts, resumed.Add(second), resumed.Add(second+time.Second)))
		slowest, fastest = min(slowest, n), max(fastest, n)
	}
	if fastest > 0 {
		b.figure("resumed_slowest_second", slowest)
		b.figure("resumed_fastest_second", fastest)
	}
	return nil
}

func median(all []float64) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

// drop has a gate drop a collection among others that start.
func (b *brake) drop(ctx context.Context) error {
	bad := group{0, max(1, b.Tasks/2), sdk.Item{Lambda: b.Lambda, Collection: "bad"}}
	others := group{bad.to, bad.to + b.Tasks, sdk.Item{Lambda: b.Lambda, Collection: "others"}}
	b.seen = newRecord(others.to)
	if err := b.create(ctx, admin.Lambda{Name: b.Lambda, Priorities: []string{"normal"}}); err != nil {
		return err
	}
	gate, err := admin.New(b.Client).Gates.Create(ctx, admin.Gate{Action: admin.GateDrop, Lambda: b.Lambda, Collection: "bad", Reason: brakeReason})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	b.work(ctx, 0, b.Lambda)
	due := b.due(bad.size() + others.size())
	ids, err := b.insert(ctx, bad, due)
	if err != nil {
		return err
	}
	if err := b.insertBefore(ctx, due, others); err != nil {
		return err
	}
	if err := b.await(ctx, others); err != nil {
		return err
	}
	last, err := b.dropped(ctx, ids, gate.ID)
	if err != nil {
		return err
	}
	starts := b.starts(others)
	b.figure("dropped_tasks", float64(bad.size()))
	b.figure("dropped_that_started", float64(len(b.starts(bad))))
	b.figure("last_dropped_after_seconds", last.Sub(due).Seconds())
	b.figure("other_tasks", float64(others.size()))
	b.figure("others_per_second", b.rateSince(others, due))
	b.figure("last_other_started_after_seconds", time.UnixMicro(starts[len(starts)-1]).Sub(due).Seconds())
	return nil
}

// dropped waits for the ends of one in some hundred dropped tasks, and the last one, and returns the latest
// end. Each has to say which gate dropped it.
func (b *brake) dropped(ctx context.Context, ids []sdk.ID, gate string) (last time.Time, err error) {
	sample := []sdk.ID{ids[len(ids)-1]}
	for i := 0; i < len(ids); i += dropSample {
		sample = append(sample, ids[i])
	}
	for some := range slices.Chunk(sample, 100) {
		results, err := b.Client.Wait(ctx, some...)
		if err != nil {
			return last, err
		}
		for i := range results {
			if results[i].Err != nil {
				return last, results[i].Err
			}
			t := &results[i].Task
			if len(t.Attempts) != 1 || t.Attempts[0].Outcome != sdk.OutcomeDropped || !strings.HasPrefix(t.Attempts[0].Error, "gate "+gate+" ") {
				return last, fmt.Errorf("task %s ended as %s and not by gate %s: %+v", t.ID, t.State, gate, t.Attempts)
			}
			if end := t.Attempts[0].End; end.After(last) {
				last = end
			}
		}
	}
	return last, nil
}

// noWorkers has tasks due for ten times the enqueue timeout without a worker.
func (b *brake) noWorkers(ctx context.Context) error {
	n := max(1, b.Tasks/10)
	all := group{0, n, sdk.Item{Lambda: b.Lambda}}
	b.seen = newRecord(n)
	if err := b.create(ctx, admin.Lambda{Name: b.Lambda, Priorities: []string{"normal"}}); err != nil {
		return err
	}
	before, err := b.series(ctx, sentAgain)
	if err != nil {
		return err
	}
	due := b.due(n)
	if err := b.insertBefore(ctx, due, all); err != nil {
		return err
	}
	if err := clock.Sleep(ctx, clock.Real(), time.Until(due.Add(timeouts*task.EnqueueTimeout))); err != nil {
		return err
	}
	sent, err := b.series(ctx, `kinesin_queue_messages{lambda="`+b.Lambda+`",priority="normal",state="visible"}`)
	if err != nil {
		return err
	}
	after, err := b.series(ctx, sentAgain)
	if err != nil {
		return err
	}
	sent += after - before // at most: those that were sent again are most likely in the queue, too
	b.figure("due_tasks", float64(n))
	b.figure("seconds_without_workers", (timeouts * task.EnqueueTimeout).Seconds())
	b.figure("messages", sent)
	b.figure("messages_per_task", sent/float64(n))
	b.figure("messages_per_task_bound", 1+math.Log2(timeouts))
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	came := time.Now()
	b.work(ctx, 0, b.Lambda)
	if err := b.await(ctx, all); err != nil {
		return err
	}
	b.figure("then_started_per_second", b.rateSince(all, came))
	return nil
}

package hsc

import (
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// pool is a worker whose attempts all take one tick, and that starts what it has in the order in which it
// came, as workers of the SDK do.
type pool struct {
	*remote

	slots   int
	seen    int                  // of what was claimed
	running []*kinesinv1.Claimed // since the last tick
	waiting []*kinesinv1.Claimed
	due     map[task.ID]time.Time
	started map[string][]time.Duration // how long tasks of each priority had waited, in order
}

const tick = 10 * time.Millisecond

// pool makes a lambda with three priorities, which are strict unless weights are given, and opens the stream
// of a worker for it.
func (f *fixture) pool(slotCount int, weights ...uint16) *pool {
	f.Helper()
	f.lambda("bulk", task.PrioritiesDefault()...)
	if len(weights) > 0 {
		if _, err := f.catalog.Update(f.ctx, "bulk", func(l *task.Lambda) error { l.PriorityWeights = weights; return nil }); err != nil {
			f.Fatal(err)
		}
	}
	return &pool{
		remote: f.work(slots(uint32(slotCount), "bulk")), slots: slotCount,
		due: map[task.ID]time.Time{}, started: map[string][]time.Duration{},
	}
}

// add enqueues tasks of a priority that are due now.
func (p *pool) add(priority uint8, n int) {
	p.Helper()
	tasks := make([]task.Task, n)
	for i := range tasks {
		tasks[i] = p.task("bulk", func(t *task.Task) { t.Partition.Priority, t.Due = priority, p.clock.Now() })
		p.due[tasks[i].ID] = time.Now()
	}
	p.enqueue(tasks...)
}

// pass lets an attempt's time pass, ends what ran, and starts what comes next.
func (p *pool) pass(attempt time.Duration) {
	p.Helper()
	began := p.clock.Now()
	time.Sleep(attempt)
	report := &kinesinv1.WorkRequest{}
	for _, c := range p.running {
		r := result(c, "success")
		r.Started = int64(began)
		report.Results = append(report.Results, r)
	}
	p.running = nil
	p.start()
	p.send(report)
	p.start()
}

func (p *pool) start() {
	all := p.claimed()
	p.waiting = append(p.waiting, all[p.seen:]...)
	p.seen = len(all)
	for len(p.running) < p.slots && len(p.waiting) > 0 {
		c := p.waiting[0]
		p.running, p.waiting = append(p.running, c), p.waiting[1:]
		p.started[c.GetPriority()] = append(p.started[c.GetPriority()], time.Since(p.due[id(c)]))
	}
}

// A steady stream of high tasks needs more than the worker has. Low ones have their share all the same, as
// normal ones do; under strict order they have nothing.
func TestWeightsShareOutStarts(t *testing.T) {
	for _, weights := range [][]uint16{{8, 3, 1}, nil} {
		bubble(t, func(f *fixture) {
			p := f.pool(4, weights...)
			for range 600 {
				p.add(0, 5)
				p.add(1, 3)
				p.add(2, 1)
				p.pass(tick)
			}
			high, normal, low := len(p.started["high"]), len(p.started["normal"]), len(p.started["low"])
			all := float64(high + normal + low)
			switch {
			case all < 4*590:
				t.Errorf("only %v starts", all)
			case weights == nil && normal+low > 4*p.slots: // of the first moment, before there was a backlog
				t.Errorf("strict: %d normal and %d low ones started", normal, low)
			case weights != nil && (!about(float64(low)/all, 1./12) || !about(float64(normal)/all, 3./12)):
				t.Errorf("%d high, %d normal and %d low ones started; want 8:3:1", high, normal, low)
			}
		})
	}
}

func about(have, want float64) bool { return have > 0.8*want && have < 1.2*want }

// Low tasks that come more slowly than their share start within a round of turns and of the worker's slots.
func TestWithWeightsLowTasksWaitForATurn(t *testing.T) {
	bubble(t, func(f *fixture) {
		p := f.pool(4, 8, 3, 1)
		for n := range 1000 {
			p.add(0, 5)
			if n%5 == 0 {
				p.add(2, 1)
			}
			p.pass(tick)
		}
		waits := p.started["low"]
		slices.Sort(waits)
		// A round is 12 starts, three ticks; what the worker has beyond its slots is three ticks more.
		if most := waits[len(waits)*99/100]; len(waits) < 198 || most > 8*tick {
			t.Errorf("of 200 low tasks %d started; 99 %% waited up to %v", len(waits), most)
		}
	})
}

// A high task behind many low ones starts as soon as any slot is free, strict or with weights.
func TestAHighTaskOvertakesManyLowOnes(t *testing.T) {
	for _, weights := range [][]uint16{nil, {8, 3, 1}} {
		bubble(t, func(f *fixture) {
			p := f.pool(4, weights...)
			p.add(2, 20_000)
			for range 8 {
				p.pass(time.Second)
			}
			p.add(0, 1)
			p.pass(time.Second)
			if waits := p.started["high"]; len(waits) != 1 || waits[0] > time.Second {
				t.Errorf("weights %v: it waited %v, want one attempt at most", weights, waits)
			}
			if len(p.started["low"]) < 4*8 {
				t.Errorf("only %d low ones started", len(p.started["low"]))
			}
		})
	}
}

package node

import (
	"math"
	"math/bits"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

const (
	recentSlot  = 10 * time.Second
	recentSlots = 7 // six that are over, and the one under way
	// latenessSteps is how finely lateness is told: steps per power of two, in microseconds.
	latenessSteps = 8
	latenessBits  = 40 // the longest lateness that is told apart is 2^40 µs, twelve days
)

// recent counts starts, ends and failures of the last minute, for `kinesin stats` and `kinesin lambda get`.
// The series for Prometheus have the same since the process started.
type recent struct {
	clock clock.Clock
	keeps func(lambda uint32) bool // whether a lambda exists
	began time.Duration            // monotonic time from which slots are counted

	mu  sync.Mutex
	all map[uint32]*recentOf
}

func newRecent(c clock.Clock, keeps func(uint32) bool) *recent {
	return &recent{clock: c, keeps: keeps, began: clock.Mono(c), all: map[uint32]*recentOf{}}
}

// recentOf is the last minute of one lambda.
type recentOf struct {
	mu    sync.Mutex
	slots [recentSlots]slot
}

type slot struct {
	number int64 // of the slot since the clock's zero
	seen
	lateness [latenessBits * latenessSteps]uint32
}

// seen is what is counted in a slot.
type seen struct {
	started, ended    uint64
	failed, throttled uint64 // attempts, and tasks that were not scheduled
	classes           [task.PrioritiesMax]classCounts
}

// classCounts is what is counted of one priority.
type classCounts struct {
	started uint64
	spent   int64 // starts of its quotas; negative when more were given back than taken since
}

func (r *recent) age() time.Duration { return max(0, clock.Mono(r.clock)-r.began) }

func (r *recent) of(lambda uint32) *recentOf {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.all[lambda]
	if one == nil {
		for ref := range r.all {
			if !r.keeps(ref) {
				delete(r.all, ref)
			}
		}
		one = &recentOf{}
		r.all[lambda] = one
	}
	return one
}

// add changes the present slot of a lambda.
func (r *recent) add(lambda uint32, change func(*slot)) {
	number := int64(r.age() / recentSlot)
	one := r.of(lambda)
	one.mu.Lock()
	defer one.mu.Unlock()
	s := &one.slots[number%recentSlots]
	if s.number != number {
		*s = slot{number: number}
	}
	change(s)
}

func (r *recent) started(p task.Partition, late time.Duration) {
	r.add(p.Lambda, func(s *slot) {
		s.started++
		s.classes[p.Priority].started++
		s.lateness[latenessStep(late)]++
	})
}

// delivered counts a task of a deliver lambda: it starts and ends when it is delivered.
func (r *recent) delivered(p task.Partition, late time.Duration) {
	r.started(p, late)
	r.ended(p.Lambda)
}

func (r *recent) ended(lambda uint32)  { r.add(lambda, func(s *slot) { s.ended++ }) }
func (r *recent) failed(lambda uint32) { r.add(lambda, func(s *slot) { s.failed++ }) }

// throttled counts a task that an admission quota refused.
func (r *recent) throttled(lambda uint32) { r.add(lambda, func(s *slot) { s.throttled++ }) }

// spent counts starts that were taken of the quotas of a priority; of those that were given back less than 0.
func (r *recent) spent(p task.Partition, starts int) {
	r.add(p.Lambda, func(s *slot) { s.classes[p.Priority].spent += int64(starts) })
}

// latenessStep returns the step of a lateness: the power of two, and the three bits below it.
func latenessStep(late time.Duration) int {
	micros := uint64(max(1, late.Microseconds()))
	power := min(bits.Len64(micros)-1, latenessBits-1)
	below := (micros << 3 >> power) & (latenessSteps - 1)
	return power*latenessSteps + int(below)
}

// lateOf returns the middle of a step.
func lateOf(step int) time.Duration {
	low := math.Ldexp(1+float64(step%latenessSteps)/latenessSteps, step/latenessSteps)
	return time.Duration(low * (1 + 0.5/latenessSteps) * float64(time.Microsecond))
}

// rates returns the rates of a lambda over the slots of the last minute that are over, and the one under way.
func (r *recent) rates(lambda uint32) (rates inbound.Rates) {
	now := r.age()
	newest := int64(now / recentSlot)
	one := r.of(lambda)
	one.mu.Lock()
	defer one.mu.Unlock()
	var lateness [latenessBits * latenessSteps]uint64
	var sum seen
	for i := range one.slots {
		s := &one.slots[i]
		if s.number <= newest-recentSlots || s.number > newest {
			continue
		}
		sum.add(&s.seen)
		for step, n := range s.lateness {
			lateness[step] += uint64(n)
		}
	}
	window := (recentSlots-1)*recentSlot + now%recentSlot
	seconds := max(min(window, now), time.Second).Seconds() // a process that is young has not seen a whole minute
	rates = sum.rates(seconds)
	rates.Lateness50, rates.Lateness99 = quantile(&lateness, sum.started, 0.5), quantile(&lateness, sum.started, 0.99)
	return rates
}

func (c *seen) add(other *seen) {
	c.started, c.ended = c.started+other.started, c.ended+other.ended
	c.failed, c.throttled = c.failed+other.failed, c.throttled+other.throttled
	for i := range c.classes {
		c.classes[i].started += other.classes[i].started
		c.classes[i].spent += other.classes[i].spent
	}
}

// rates returns the counts per second.
func (c *seen) rates(seconds float64) (rates inbound.Rates) {
	rates.Started, rates.Ended = float64(c.started)/seconds, float64(c.ended)/seconds
	rates.Failed, rates.Throttled = float64(c.failed)/seconds, float64(c.throttled)/seconds
	for i, of := range c.classes {
		rates.Priorities[i] = inbound.PriorityRates{Started: float64(of.started) / seconds, Spent: float64(max(0, of.spent)) / seconds}
	}
	return rates
}

func quantile(lateness *[latenessBits * latenessSteps]uint64, of uint64, q float64) time.Duration {
	rank, seen := uint64(math.Ceil(q*float64(of))), uint64(0)
	for step, n := range lateness {
		if seen += n; n > 0 && seen >= rank {
			return lateOf(step)
		}
	}
	return 0
}

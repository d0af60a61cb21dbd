package node

import (
	"math"
	"math/bits"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/overview"
	"github.com/kinesin-io/kinesin/task"
)

const (
	historyMinutes = 60 // minutes whose lateness is kept; with the hours a day is told
	historyHours   = 24
	latenessKinds  = latenessBits * latenessSteps
	// historyPlotted is how many minutes of rates are kept.
	historyPlotted = 24 * 60
)

// history counts starts and ends of all lambdas together over a day, as far as this process saw them. It has
// a fixed size, about a quarter of a megabyte.
type history struct {
	clock clock.Clock

	mu      sync.Mutex
	plotted [historyPlotted]minuteOf
	minutes [historyMinutes + 1]span
	hours   [historyHours + 1]span
	began   task.Instant // when counting began
}

// minuteOf is what happened in one minute.
type minuteOf struct {
	number          int64 // since 1970
	started, failed uint32
	ended           [endStates]uint32
}

// span is the lateness of the starts of a time, and how many there were.
type span struct {
	number   int64 // since 1970, in units of its length
	started  uint64
	failed   uint64
	ended    [endStates]uint64
	lateness [latenessKinds]uint32
}

// endStates is more than the number of the last state.
const endStates = 32

func newHistory(c clock.Clock) *history {
	return &history{clock: c, began: c.Now()}
}

// at returns the places of the present minute and hour. Call with mu held.
func (h *history) at() (m *minuteOf, minute, hour *span) {
	now := int64(h.clock.Now()) / time.Minute.Microseconds()
	if m = &h.plotted[now%historyPlotted]; m.number != now {
		*m = minuteOf{number: now}
	}
	return m, spanAt(h.minutes[:], now), spanAt(h.hours[:], now/60)
}

func spanAt(all []span, number int64) *span {
	s := &all[number%int64(len(all))]
	if s.number != number {
		*s = span{number: number}
	}
	return s
}

func (h *history) started(late time.Duration) {
	step := latenessStep(late)
	h.mu.Lock()
	defer h.mu.Unlock()
	m, minute, hour := h.at()
	m.started++
	for _, s := range []*span{minute, hour} {
		s.started++
		s.lateness[step]++
	}
}

func (h *history) ended(state task.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m, minute, hour := h.at()
	i := int(state) % endStates
	m.ended[i]++
	minute.ended[i]++
	hour.ended[i]++
}

func (h *history) failed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	m, minute, hour := h.at()
	m.failed++
	minute.failed++
	hour.failed++
}

// window sums up the last minutes: at most historyMinutes of them by the minute, more by the hour.
func (h *history) window(length time.Duration) overview.Window {
	now := int64(h.clock.Now())
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at()
	all, unit := h.minutes[:], time.Minute
	if length > historyMinutes*time.Minute {
		all, unit = h.hours[:], time.Hour
	}
	newest := now / unit.Microseconds()
	whole := int64(length/unit) - 1 // besides the one under way
	var sum span
	var lateness [latenessKinds]uint64
	for i := range all {
		s := &all[i]
		if s.number < newest-max(whole, 1) || s.number > newest {
			continue
		}
		sum.started, sum.failed = sum.started+s.started, sum.failed+s.failed
		for state, n := range s.ended {
			sum.ended[state] += n
		}
		for step, n := range s.lateness {
			lateness[step] += uint64(n)
		}
	}
	from := max((newest-max(whole, 1))*unit.Microseconds(), int64(h.began))
	covered := max(task.Micros(now-from), time.Second)
	w := overview.Window{Length: covered, Started: float64(sum.started) / covered.Seconds(), Failed: float64(sum.failed) / covered.Seconds(), Ended: map[string]float64{}}
	for state, n := range sum.ended {
		if n > 0 {
			w.Ended[task.State(state).String()] = float64(n) / covered.Seconds()
		}
	}
	w.Late50, w.Late95, w.Late99 = quantile(&lateness, sum.started, 0.5), quantile(&lateness, sum.started, 0.95), quantile(&lateness, sum.started, 0.99)
	return w
}

// since returns the last minutes, oldest first, those in which nothing happened included.
func (h *history) since(count int) []overview.Minute {
	count = min(count, historyPlotted-1)
	now := int64(h.clock.Now()) / time.Minute.Microseconds()
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []overview.Minute
	for number := max(now-int64(count)+1, int64(h.began)/time.Minute.Microseconds()); number <= now; number++ {
		m := overview.Minute{At: time.Unix(number*60, 0)}
		if kept := &h.plotted[number%historyPlotted]; kept.number == number {
			m.Started, m.Failed, m.Ended = uint64(kept.started), uint64(kept.failed), map[string]uint64{}
			for state, n := range kept.ended {
				if n > 0 {
					m.Ended[task.State(state).String()] = uint64(n)
				}
			}
		}
		all = append(all, m)
	}
	return all
}

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

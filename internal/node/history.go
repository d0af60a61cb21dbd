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
)

// history counts starts and ends of all lambdas together over a day, as far as this process saw them. It has
// a fixed size, about 130 kB.
type history struct {
	clock clock.Clock

	mu      sync.Mutex
	minutes [historyMinutes + 1]span
	hours   [historyHours + 1]span
	began   task.Instant // when counting began
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
func (h *history) at() (minute, hour *span) {
	now := int64(h.clock.Now()) / time.Minute.Microseconds()
	return spanAt(h.minutes[:], now), spanAt(h.hours[:], now/60)
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
	minute, hour := h.at()
	for _, s := range []*span{minute, hour} {
		s.started++
		s.lateness[step]++
	}
}

func (h *history) ended(state task.State) {
	h.mu.Lock()
	defer h.mu.Unlock()
	minute, hour := h.at()
	i := int(state) % endStates
	minute.ended[i]++
	hour.ended[i]++
}

func (h *history) failed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	minute, hour := h.at()
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

// since returns the last minutes, at most historyMinutes of them, oldest first, those in which nothing happened included.
func (h *history) since(count int) (all []overview.Minute) {
	count = min(count, historyMinutes)
	now := int64(h.clock.Now()) / time.Minute.Microseconds()
	h.mu.Lock()
	defer h.mu.Unlock()
	for number := max(now-int64(count)+1, int64(h.began)/time.Minute.Microseconds()); number <= now; number++ {
		m := overview.Minute{At: time.Unix(number*60, 0)}
		if s := &h.minutes[number%int64(len(h.minutes))]; s.number == number {
			m.Started, m.Failed = s.started, s.failed
			for _, n := range s.ended {
				m.Ended += n
			}
			m.Late50, m.Late99 = quantile(&s.lateness, s.started, 0.5), quantile(&s.lateness, s.started, 0.99)
		}
		all = append(all, m)
	}
	return all
}

const (
	recentSlot  = 10 * time.Second
	recentSlots = 7 // six that are over, and the one under way
	minuteSlots = int64(time.Minute / recentSlot)
	// latenessSteps is how finely lateness is told: steps per power of two, in microseconds.
	latenessSteps = 8
	latenessBits  = 40 // the longest lateness that is told apart is 2^40 µs, twelve days
)

// recent counts starts, ends and failures of each lambda: of the last minute for `kinesin stats` and `kinesin lambda
// get`, and by the minute for the console. The series for Prometheus have the same since the process started.
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

// recentOf is the last minute of one lambda, and what is left of the minutes and hours before.
type recentOf struct {
	mu      sync.Mutex
	slots   [recentSlots]slot
	minute  int64 // the newest one in which something was counted; it is in slots alone
	minutes [historyMinutes]minuteOf
	hours   [historyHours]hourOf
}

// minuteOf is one minute of a lambda.
type minuteOf struct {
	number                 int64 // of the minute since the clock's zero
	started, ended, failed uint64
	late50, late99         time.Duration
}

// hourOf is the failed attempts of one hour of a lambda.
type hourOf struct {
	number int64 // of the hour since the clock's zero
	failed uint64
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
	one.turn(number / minuteSlots)
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
	sum, lateness := one.sum(newest-recentSlots+1, newest)
	window := (recentSlots-1)*recentSlot + now%recentSlot
	seconds := max(min(window, now), time.Second).Seconds() // a process that is young has not seen a whole minute
	rates = sum.rates(seconds)
	rates.Lateness50, rates.Lateness99 = quantile(lateness, sum.started, 0.5), quantile(lateness, sum.started, 0.99)
	return rates
}

// sum sums up slots by their numbers.
func (o *recentOf) sum(from, to int64) (sum seen, lateness *[latenessKinds]uint64) {
	lateness = new([latenessKinds]uint64)
	for i := range o.slots {
		s := &o.slots[i]
		if s.number < from || s.number > to {
			continue
		}
		sum.add(&s.seen)
		for step, n := range s.lateness {
			lateness[step] += uint64(n)
		}
	}
	return sum, lateness
}

// turn keeps what is left of the newest minute when another one begins, before its slots are used again.
func (o *recentOf) turn(minute int64) {
	if minute == o.minute {
		return
	}
	over := o.newest()
	o.minutes[over.number%historyMinutes] = over
	o.hourAt(over.number).failed += over.failed
	o.minute = minute
}

// newest returns the newest minute in which something was counted.
func (o *recentOf) newest() minuteOf {
	sum, lateness := o.sum(o.minute*minuteSlots, (o.minute+1)*minuteSlots-1)
	return minuteOf{o.minute, sum.started, sum.ended, sum.failed, quantile(lateness, sum.started, 0.5), quantile(lateness, sum.started, 0.99)}
}

// hourAt returns the place of the hour of a minute, empty unless it is of that hour.
func (o *recentOf) hourAt(minute int64) *hourOf {
	h := &o.hours[minute/60%historyHours]
	if h.number != minute/60 {
		*h = hourOf{number: minute / 60}
	}
	return h
}

// since returns the last minutes of a lambda, oldest first, as history.since does.
func (r *recent) since(lambda uint32, count int) (all []overview.Minute) {
	age, wall := r.age(), r.clock.Now().Time()
	now := int64(age / time.Minute)
	one := r.of(lambda)
	one.mu.Lock()
	defer one.mu.Unlock()
	newest := one.newest()
	for number := max(0, now-int64(min(count, historyMinutes))+1); number <= now; number++ {
		m := one.minutes[number%historyMinutes]
		switch number {
		case newest.number:
			m = newest
		case m.number:
		default:
			m = minuteOf{}
		}
		at := wall.Add(time.Duration(number)*time.Minute - age)
		all = append(all, overview.Minute{At: at, Started: m.started, Ended: m.ended, Failed: m.failed, Late50: m.late50, Late99: m.late99})
	}
	return all
}

// failedIn returns how many attempts of a lambda failed in the last hour and the last day.
func (r *recent) failedIn(lambda uint32) (hour, day uint64) {
	now := int64(r.age() / time.Minute)
	one := r.of(lambda)
	one.mu.Lock()
	defer one.mu.Unlock()
	newest := one.newest()
	if newest.number > now-24*60 {
		day = newest.failed
	}
	if newest.number > now-historyMinutes {
		hour = newest.failed
	}
	for _, m := range one.minutes {
		if m.number > now-historyMinutes && m.number != newest.number {
			hour += m.failed
		}
	}
	for _, h := range one.hours {
		if h.number > now/60-historyHours {
			day += h.failed
		}
	}
	return hour, max(hour, day)
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

func quantile[N uint32 | uint64](lateness *[latenessKinds]N, of uint64, q float64) time.Duration {
	rank, seen := uint64(math.Ceil(q*float64(of))), uint64(0)
	for step, n := range lateness {
		if seen += uint64(n); n > 0 && seen >= rank {
			return lateOf(step)
		}
	}
	return 0
}

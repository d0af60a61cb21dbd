package node

import (
	"sync"
	"time"

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

package node

import (
	"math"
	"math/bits"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/clock"
)

const (
	recentSlot  = 10 * time.Second
	recentSlots = 7 // six that are over, and the one under way
	// latenessSteps is how finely lateness is told: steps per power of two, in microseconds.
	latenessSteps = 8
	latenessBits  = 40 // the longest lateness that is told apart is 2^40 µs, twelve days
)

// recent counts the starts and ends of the last minute, for `kinesin stats`. The series for Prometheus have
// the same since the process started.
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
	number         int64 // of the slot since the clock's zero
	started, ended uint64
	lateness       [latenessBits * latenessSteps]uint32
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

func (r *recent) started(lambda uint32, late time.Duration) {
	r.add(lambda, func(s *slot) {
		s.started++
		s.lateness[latenessStep(late)]++
	})
}

func (r *recent) ended(lambda uint32) { r.add(lambda, func(s *slot) { s.ended++ }) }

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
	var started, ended uint64
	for i := range one.slots {
		s := &one.slots[i]
		if s.number <= newest-recentSlots || s.number > newest {
			continue
		}
		started, ended = started+s.started, ended+s.ended
		for step, n := range s.lateness {
			lateness[step] += uint64(n)
		}
	}
	seconds := ((recentSlots-1)*recentSlot + now%recentSlot).Seconds()
	rates.Started, rates.Ended = float64(started)/seconds, float64(ended)/seconds
	rates.Lateness50, rates.Lateness99 = quantile(&lateness, started, 0.5), quantile(&lateness, started, 0.99)
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

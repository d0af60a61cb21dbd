package awsfake

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Fault is one way in which a call, or an entry of a batch, can fail.
type Fault string

// The faults that all services have.
const (
	Stalled     Fault = "stalled"      // the call waits before it goes on
	Denied      Fault = "denied"       // no permission; not applied
	Throttled   Fault = "throttled"    // the call, or one entry of a batch where the service throttles entries
	Refused     Fault = "refused"      // server error; not applied
	BrokenAfter Fault = "broken after" // server error; applied
	LostRequest Fault = "lost request" // no answer in time; not applied
	LostAnswer  Fault = "lost answer"  // no answer in time; applied
	Partial     Fault = "partial"      // server error for one entry of a batch; not applied
	PartialDone Fault = "partial done" // server error for one entry of a batch; applied
)

// Any means every call of a service.
const Any = ""

type rule struct {
	call  string
	fault Fault
}

// Faults decides which calls fail. A fault has odds, or a number of next calls, for one kind of call (named
// like the client's method) or for Any. The same seed and the same calls in the same order give the same
// faults. All methods are safe for concurrent use.
type Faults struct {
	mu     sync.Mutex // guards all below
	random *rand.Rand
	odds   map[rule]float64
	next   map[rule]int
	fired  map[Fault]int
	stall  time.Duration
}

// NewFaults returns Faults without any fault yet.
func NewFaults(seed uint64) *Faults {
	return &Faults{
		random: rand.New(rand.NewPCG(seed, 0x6b696e6573696e)), //nolint:gosec // repeatable on purpose
		odds:   map[rule]float64{}, next: map[rule]int{}, fired: map[Fault]int{}, stall: stallDefault,
	}
}

// Odds makes a fault strike calls of a kind with probability p from now on.
func (f *Faults) Odds(call string, fault Fault, p float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.odds[rule{call, fault}] = p
}

// Next makes a fault strike the next n calls, or entries, of a kind.
func (f *Faults) Next(call string, fault Fault, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next[rule{call, fault}] = n
}

// StallFor sets how long stalled calls wait from now on; 1 s by default.
func (f *Faults) StallFor(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stall = d
}

// Off ends all faults.
func (f *Faults) Off() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.odds)
	clear(f.next)
}

// Fired returns how often a fault has struck.
func (f *Faults) Fired(fault Fault) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired[fault]
}

// Strikes reports whether a fault strikes this call or entry. Fakes call it.
func (f *Faults) Strikes(call string, fault Fault) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	struck := f.planned(rule{call, fault}) || f.planned(rule{Any, fault})
	if struck {
		f.fired[fault]++
	}
	return struck
}

func (f *Faults) planned(r rule) bool {
	if f.next[r] > 0 {
		f.next[r]--
		return true
	}
	p := f.odds[r]
	return p > 0 && f.random.Float64() < p
}

// Between draws a duration in [0, most]. Fakes call it.
func (f *Faults) Between(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.random.Int64N(int64(most) + 1))
}

// Pick draws a number in [0, n). Fakes call it.
func (f *Faults) Pick(n int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.random.IntN(n)
}

func (f *Faults) stallTime() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stall
}

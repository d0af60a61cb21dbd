package awsfake

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Fault is one thing that can go wrong with a call or, where it says so, with one entry of a batch.
type Fault string

// The faults of all services.
const (
	Stalled     Fault = "stalled"      // nothing happens for a while, then the call goes on
	Denied      Fault = "denied"       // access denied; nothing was done
	Throttled   Fault = "throttled"    // the whole call, or one entry of a batch where the service throttles those
	Refused     Fault = "refused"      // a server error; nothing was done
	BrokenAfter Fault = "broken after" // a server error, but it was done
	LostRequest Fault = "lost request" // no answer in time; nothing was done
	LostAnswer  Fault = "lost answer"  // no answer in time, but it was done
	Partial     Fault = "partial"      // one entry of a batch fails with a server error; it was not done
	PartialDone Fault = "partial done" // one entry of a batch fails with a server error, but it was done
)

// Any is every call of a service.
const Any = ""

type rule struct {
	call  string
	fault Fault
}

// Faults decides which calls go wrong. A fault has odds, or a number of next calls, for one kind of call
// (named like the client's method) or for Any. With the same seed and the same calls in the same order the
// same faults happen. All methods are safe for concurrent use.
type Faults struct {
	mu     sync.Mutex // guards all below
	random *rand.Rand
	odds   map[rule]float64
	next   map[rule]int
	fired  map[Fault]int
	stall  time.Duration
}

// NewFaults returns a source of faults that lets everything through until told otherwise.
func NewFaults(seed uint64) *Faults {
	return &Faults{
		random: rand.New(rand.NewPCG(seed, 0x6b696e6573696e)), //nolint:gosec // repeatable on purpose
		odds:   map[rule]float64{}, next: map[rule]int{}, fired: map[Fault]int{}, stall: stallDefault,
	}
}

// Odds makes a fault strike calls of that kind with a probability of p from now on.
func (f *Faults) Odds(call string, fault Fault, p float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.odds[rule{call, fault}] = p
}

// Next makes a fault strike the next n calls (or entries) of that kind.
func (f *Faults) Next(call string, fault Fault, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next[rule{call, fault}] = n
}

// StallFor sets how long stalled calls hang from now on; 1 s at first.
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

// Fired is how often a fault has struck.
func (f *Faults) Fired(fault Fault) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired[fault]
}

// Strikes decides about one call or entry. Stand-ins ask it.
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

// Between draws a duration in [0, most]. Stand-ins ask it.
func (f *Faults) Between(most time.Duration) time.Duration {
	if most <= 0 {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return time.Duration(f.random.Int64N(int64(most) + 1))
}

// Pick draws a number in [0, n). Stand-ins ask it.
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

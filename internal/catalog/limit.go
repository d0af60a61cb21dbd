package catalog

import (
	"errors"
	"fmt"
	"math"

	"github.com/kinesin-io/kinesin/task"
)

// Bounds of a limit.
const (
	// RateMin is the lowest rate, in tasks per second: about one in a quarter of an hour.
	RateMin = 0.001
	// RateMax is the highest rate, in tasks per second.
	RateMax = 1_000_000
	// BurstMax bounds how many tasks start at once after a pause.
	BurstMax = 100_000
	// ConcurrencyMax is how many tasks run at once at most under a quota that bounds them.
	ConcurrencyMax = 100_000
	// LimitsMax is how many limits a lambda has at most, over priorities and identities.
	LimitsMax = 100
	// IdentityBytesMax bounds the name of an identity.
	IdentityBytesMax = 256
)

// Limit bounds the starts, or the running tasks, of all priorities together or of one, or what Schedule takes
// of all identities together or of one.
type Limit struct {
	Priority string `json:"priority,omitempty"` // empty: all together
	Class    uint8  `json:"class,omitempty"`    // the index of Priority
	Identity string `json:"identity,omitempty"` // whose tasks Admit bounds; empty: those of all together

	Rate  float64 `json:"rate,omitempty"`  // starts per second; 0: no limit
	Burst uint32  `json:"burst,omitempty"` // starts at once after a pause; 0: what the rate gives in 100 ms
	Admit float64 `json:"admit,omitempty"` // tasks per second that Schedule takes; 0: no limit

	Concurrency uint32 `json:"concurrency,omitempty"` // tasks that run at once; 0: no limit

	// Recovery is how many tasks per second a resumed gate lets go, and a redrive job changes, if it is
	// given no pace; 0: no limit.
	Recovery uint32 `json:"recovery,omitempty"`

	Updated   task.Instant `json:"updated"`
	UpdatedBy string       `json:"updated_by,omitempty"`

	ManagedBy string `json:"managed_by,omitempty"` // the declared set that it is of; empty: none
}

// IsNone reports whether the limit bounds nothing.
func (l *Limit) IsNone() bool {
	return l.Rate == 0 && l.Admit == 0 && l.Concurrency == 0 && l.Recovery == 0
}

// Validate checks a limit as it is after a change.
func (l *Limit) Validate() error {
	var errs []error
	for _, r := range []struct {
		name string
		rate float64
	}{{"rate", l.Rate}, {"admit", l.Admit}} {
		if r.rate != 0 && !(r.rate >= RateMin && r.rate <= RateMax) || math.IsNaN(r.rate) {
			errs = append(errs, fmt.Errorf("%w %s %v: want %v to %d tasks per second", task.ErrInvalid, r.name, r.rate, RateMin, RateMax))
		}
	}
	if l.Burst > BurstMax {
		errs = append(errs, fmt.Errorf("%w burst %d: want at most %d", task.ErrInvalid, l.Burst, BurstMax))
	}
	if l.Burst > 0 && l.Rate == 0 {
		errs = append(errs, fmt.Errorf("%w burst %d: there is no rate; give both", task.ErrInvalid, l.Burst))
	}
	if l.Concurrency > ConcurrencyMax {
		errs = append(errs, fmt.Errorf("%w concurrency %d: want 1 to %d tasks that run at once", task.ErrInvalid, l.Concurrency, ConcurrencyMax))
	}
	if l.Identity != "" && l.Concurrency != 0 {
		errs = append(errs, fmt.Errorf("%w quota: concurrency is per lambda and priority, not per identity; leave the identity out", task.ErrInvalid))
	}
	if l.Priority != "" && l.Admit != 0 {
		errs = append(errs, fmt.Errorf("%w quota: admit is per lambda and identity, not per priority; leave the priority out", task.ErrInvalid))
	}
	if l.Identity != "" && l.Rate != 0 {
		errs = append(errs, fmt.Errorf("%w quota: rate is per lambda and priority, not per identity; leave the identity out", task.ErrInvalid))
	}
	if l.Recovery > RateMax {
		errs = append(errs, fmt.Errorf("%w recovery %d: want 1 to %d tasks per second", task.ErrInvalid, l.Recovery, RateMax))
	}
	if l.Recovery > 0 && (l.Priority != "" || l.Identity != "") {
		errs = append(errs, fmt.Errorf("%w quota: recovery is per lambda, not per priority or identity; leave these out", task.ErrInvalid))
	}
	if len(l.Identity) > IdentityBytesMax {
		errs = append(errs, fmt.Errorf("%w identity: want at most %d bytes", task.ErrInvalid, IdentityBytesMax))
	}
	return errors.Join(errs...)
}

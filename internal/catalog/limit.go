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

// Owner is who creates a lambda. An urgent one has no share: it may have whatever is left.
type Owner struct {
	Name   string
	Urgent bool
}

// CheckShare refuses, with ErrFull, a new lambda of an owner that has as many as are left for others.
func (c *Catalog) CheckShare(by Owner) error {
	if c.Room == nil {
		return nil
	}
	known := c.known.Load()
	own := int64(known.owned[by.Name])
	if !c.Room.Admits(by.Name, int64(len(known.sorted)), own, by.Urgent) {
		return fmt.Errorf("%w: there may be %d (serve --lambdas-max), of one identity as many as are left for others, and %s has created %d; delete one that is not needed",
			ErrFull, c.Room.Most(), by.Name, own)
	}
	return nil
}

// CheckBounds refuses, with task.ErrInvalid, a lambda that would bring the installation above a bound, or
// further above it: a new one, or one with more shards than it has. Unset fields have their defaults.
func (c *Catalog) CheckBounds(want task.Lambda) error {
	want = c.WithDefaults(want)
	known, b := c.known.Load(), &c.Bounds
	partitions, has := partitionsOf(&want), 0
	if have := known.byName[want.Name]; have != nil {
		has = partitionsOf(&have.Lambda)
	} else if b.Lambdas > 0 && len(known.sorted) >= b.Lambdas {
		return fmt.Errorf("%w lambda %s: there are %d lambdas, and this installation may have %d (serve --lambdas-max); delete one that is not needed",
			task.ErrInvalid, want.Name, len(known.sorted), b.Lambdas)
	}
	if partitions <= has {
		return nil
	}
	if b.LambdaPartitions > 0 && partitions > b.LambdaPartitions {
		return fmt.Errorf("%w lambda %s: %d shards for each of %d priorities are %d partitions, and a lambda may have %d (serve --lambda-partitions-max)",
			task.ErrInvalid, want.Name, want.Shards, len(want.Priorities), partitions, b.LambdaPartitions)
	}
	if b.Partitions > 0 && known.partitions-has+partitions > b.Partitions {
		return fmt.Errorf("%w lambda %s: with its %d partitions (%d shards for each of %d priorities) all lambdas would have %d, and may have %d together (serve --partitions-max)",
			task.ErrInvalid, want.Name, partitions, want.Shards, len(want.Priorities), known.partitions-has+partitions, b.Partitions)
	}
	return nil
}

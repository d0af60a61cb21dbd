package catalog

import (
	"fmt"

	"github.com/kinesin-io/kinesin/task"
)

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

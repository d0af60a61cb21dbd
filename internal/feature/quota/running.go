package quota

import (
	"github.com/kinesin-io/kinesin/internal/limit"
	"github.com/kinesin-io/kinesin/task"
)

// Running answers how many tasks of a lambda may run at once.
type Running struct {
	Book    *Book
	Weights func(lambda uint32) []uint16 // of a lambda's priorities; nil, or none: higher ones go first
	// Shared says that other processes may start tasks, which learn of a quota a moment later.
	Shared bool
}

// Group returns what names the partitions of a partition's lambda, whose tasks are counted together. limited
// is false if any number of them may run at once.
func (r *Running) Group(p task.Partition) (group task.Partition, limited bool) {
	if !r.Book.HasConcurrency(p.Lambda) {
		return p, false
	}
	return task.Partition{Lambda: p.Lambda}, true
}

// Limits returns the quota of a group, and the weights of its priorities; nil: any number may run at once.
func (r *Running) Limits(group task.Partition) (c *limit.Concurrency, weights []uint16) {
	of := r.Book.Value()[group.Lambda]
	if of == nil || of.running == nil {
		return nil, nil
	}
	limits := *of.running
	if !r.Shared {
		limits.Set = 0
	}
	if r.Weights != nil {
		weights = r.Weights(group.Lambda)
	}
	return &limits, weights
}

// Bounds reports whether a quota bounds how many tasks of a partition's priority run at once.
func (r *Running) Bounds(p task.Partition) bool {
	of := r.Book.Value()[p.Lambda]
	return of != nil && of.running != nil && (of.running.All > 0 || of.running.Priorities[p.Priority] > 0)
}

// Changed returns a channel that is closed when the others may answer otherwise.
func (r *Running) Changed() <-chan struct{} { return r.Book.Changed() }

// HasConcurrency reports whether a quota bounds how many tasks of a lambda, or of one of its priorities, run
// at once.
func (b *Book) HasConcurrency(lambda uint32) bool {
	of := b.Value()[lambda]
	return of != nil && of.running != nil
}

// HasStarts reports whether only the scheduler may start tasks of a lambda, because a quota bounds how many
// start or run.
func (b *Book) HasStarts(lambda uint32) bool {
	of := b.Value()[lambda]
	return of != nil && (of.hasRate || of.running != nil)
}

// noteConcurrency returns the concurrency of a lambda with that of one more of its limits.
func noteConcurrency(c *limit.Concurrency, l *Limit) *limit.Concurrency {
	if l.Concurrency == 0 {
		return c
	}
	if c == nil {
		c = &limit.Concurrency{}
	}
	if c.Set = max(c.Set, l.Updated); l.Priority == "" {
		c.All = int(l.Concurrency)
	} else {
		c.Priorities[l.Class] = int(l.Concurrency)
	}
	return c
}

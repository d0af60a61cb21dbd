package quota

import (
	"strconv"
	"time"

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

// Starts keeps the quotas of starts: of a priority, and of a lambda. A start spends one of each that is set.
type Starts struct {
	Book    *Book
	Limiter *limit.Limiter
	Weights func(lambda uint32) []uint16 // of a lambda's priorities; nil, or none: higher ones go first
}

// Rate returns the lowest rate that bounds the starts of a partition's tasks, per second; 0: none does.
func (s *Starts) Rate(p task.Partition) (rate float64) {
	of := s.Book.Value()[p.Lambda]
	if of == nil {
		return 0
	}
	rate = of.all.Rate
	if one, ok := of.starts[p.Priority]; ok && (rate == 0 || one.Rate < rate) {
		rate = one.Rate
	}
	return rate
}

// Within returns how many tasks of a priority of a lambda may start within a time; false: any number.
func (s *Starts) Within(lambda uint32, priority uint8, d time.Duration) (starts int, limited bool) {
	of := s.Book.Value()[lambda]
	if of == nil {
		return 0, false
	}
	for _, l := range []Limit{of.all, of.starts[priority]} {
		if l.Rate == 0 {
			continue
		}
		if n := limit.Within(l.Rate, l.Burst, d); !limited || n < starts {
			starts, limited = n, true
		}
	}
	return starts, limited
}

// Take takes up to want starts for a partition of which wait tasks are due. When it grants fewer, again says
// when to ask again, and more, if not nil, is closed when that may be sooner.
func (s *Starts) Take(p task.Partition, want, wait int) (granted int, again task.Instant, more <-chan struct{}) {
	of := s.Book.Value()[p.Lambda]
	if of == nil {
		return want, 0, nil
	}
	granted = want
	var w limit.Wait
	one, hasOne := of.starts[p.Priority]
	if hasOne {
		granted, w = s.Limiter.Take(limit.Ask{Name: classLine(p), Rate: one.Rate, Burst: one.Burst, Caller: p, Want: want, Wait: wait})
		wait = granted // what the priority holds back needs nothing of the lambda
	}
	if of.all.Rate > 0 && granted > 0 {
		of := of.all
		n, all := s.Limiter.Take(limit.Ask{
			Name: lambdaLine(p), Rate: of.Rate, Burst: of.Burst, Caller: p, Class: p.Priority, Weights: s.weights(p.Lambda), Want: granted,
			Wait: max(wait, granted),
		})
		if hasOne {
			s.Limiter.Return(classLine(p), granted-n)
		}
		if n < granted {
			granted, w = n, all
		}
	}
	return granted, w.Again, w.More
}

func (s *Starts) weights(lambda uint32) []uint16 {
	if s.Weights == nil {
		return nil
	}
	return s.Weights(lambda)
}

// Return gives starts back that were taken for a partition and not made.
func (s *Starts) Return(p task.Partition, count int) {
	of := s.Book.Value()[p.Lambda]
	if of == nil || count <= 0 {
		return
	}
	if _, ok := of.starts[p.Priority]; ok {
		s.Limiter.Return(classLine(p), count)
	}
	if of.all.Rate > 0 {
		s.Limiter.Return(lambdaLine(p), count)
	}
}

func lambdaLine(p task.Partition) string { return strconv.FormatUint(uint64(p.Lambda), 10) }

func classLine(p task.Partition) string {
	return lambdaLine(p) + "." + strconv.FormatUint(uint64(p.Priority), 10)
}

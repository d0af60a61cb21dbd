package quota

import (
	"strconv"
	"time"

	"github.com/kinesin-io/kinesin/internal/limit"
	"github.com/kinesin-io/kinesin/task"
)

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

package node

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// MetricLambdasDefault is how many lambdas have series of their own.
	MetricLambdasDefault = 200
	// otherLabel stands for all other lambdas, and for their priorities with names of their own.
	otherLabel = "other"
	// rankTimes is how many times as much a lambda has to be used as one with series to take its place, so
	// that two of about the same use do not take turns.
	rankTimes = 2
)

// lambdaLabels says which lambdas have series of their own: those that are used most. It is safe for
// concurrent use.
type lambdaLabels struct {
	most int

	mu    sync.Mutex
	named map[uint32]bool
	uses  map[uint32]*usage
}

// usage is how much a lambda is used.
type usage struct {
	events atomic.Uint64
	seen   uint64 // events at the last rank
	score  uint64 // events since then, and half of the score before
}

func newLambdaLabels(most int) *lambdaLabels {
	return &lambdaLabels{most: most, named: map[uint32]bool{}, uses: map[uint32]*usage{}}
}

// of returns the values of the labels lambda and priority. A lambda gets series of its own while there are
// few enough.
func (l *lambdaLabels) of(e *catalog.Entry, priority uint8) (lambda, name string) {
	name = e.Priorities[priority]
	if l.has(e.Ref) {
		return e.Name, name
	}
	if !slices.Contains(task.PrioritiesDefault(), name) {
		name = otherLabel
	}
	return otherLabel, name
}

// lambda returns the value of the label lambda.
func (l *lambdaLabels) lambda(e *catalog.Entry) string {
	if l.has(e.Ref) {
		return e.Name
	}
	return otherLabel
}

func (l *lambdaLabels) has(ref uint32) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.named[ref] && len(l.named) < l.most {
		l.named[ref] = true
	}
	return l.named[ref]
}

// use returns what counts the use of a lambda.
func (l *lambdaLabels) use(ref uint32) *usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.uses[ref] == nil {
		l.uses[ref] = &usage{}
	}
	return l.uses[ref]
}

// forget removes lambdas that are gone.
func (l *lambdaLabels) forget(exists func(ref uint32) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ref := range l.uses {
		if !exists(ref) {
			delete(l.uses, ref)
		}
	}
	for ref := range l.named {
		if !exists(ref) {
			delete(l.named, ref)
		}
	}
}

// rank gives the places of lambdas that are little used to others that are used more. It returns the lambdas
// whose labels change.
func (l *lambdaLabels) rank() (changed []uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var in, out []uint32
	for ref, u := range l.uses {
		events := u.events.Load()
		u.score, u.seen = u.score/2+events-u.seen, events
		if !l.named[ref] {
			out = append(out, ref)
		}
	}
	for ref := range l.named {
		in = append(in, ref)
	}
	score := func(ref uint32) uint64 {
		if u := l.uses[ref]; u != nil {
			return u.score
		}
		return 0
	}
	slices.SortFunc(in, func(a, b uint32) int { return cmp.Or(cmp.Compare(score(a), score(b)), cmp.Compare(b, a)) })
	slices.SortFunc(out, func(a, b uint32) int { return cmp.Or(cmp.Compare(score(b), score(a)), cmp.Compare(a, b)) })
	for i := range min(len(in), len(out)) {
		if score(out[i]) <= rankTimes*score(in[i]) {
			break
		}
		delete(l.named, in[i])
		l.named[out[i]] = true
		changed = append(changed, in[i], out[i])
	}
	return changed
}

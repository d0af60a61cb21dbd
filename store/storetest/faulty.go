package storetest

import (
	"context"
	"errors"
	"sync"

	"github.com/kinesin-io/kinesin/store"
)

// Fault is what happens to a write that comes back as unknown.
type Fault uint8

// The two sides of an unknown outcome.
const (
	// NotApplied drops the write.
	NotApplied Fault = iota
	// AppliedButErrored applies the write and loses the answer.
	AppliedButErrored
)

// ErrInjected is the reason inside every injected error.
var ErrInjected = errors.New("injected fault")

// Faulty is a driver whose chosen writes come back with an unknown outcome, and so does what follows them: it
// is not applied either if they are not, and else by its own fault.
type Faulty struct {
	store.Driver

	mu    sync.Mutex // guards plans and reads
	plans []*plan
	reads int // reads of single rows that still fail
}

type plan struct {
	matches func(*store.Op) bool
	skip    int // matching writes to let through first
	left    int // writes to make fail
	how     Fault
}

// NewFaulty wraps a driver, which behaves until Fail is called.
func NewFaulty(d store.Driver) *Faulty { return &Faulty{Driver: d} }

// Fail makes writes of the given kind fail: times of them, from the nth matching one (1 for the next) on.
func (f *Faulty) Fail(kind store.OpKind, nth, times int, how Fault) {
	f.FailMatching(func(op *store.Op) bool { return op.Kind == kind }, nth, times, how)
}

// FailMatching is Fail for writes that match.
func (f *Faulty) FailMatching(matches func(*store.Op) bool, nth, times int, how Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plans = append(f.plans, &plan{matches, nth - 1, times, how})
}

// FailReads makes the next n reads of single rows fail: Tasks, Wakeups, Payload and Controls.
func (f *Faulty) FailReads(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads = n
}

// Pending reports how many planned faults have not happened.
func (f *Faulty) Pending() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.reads
	for _, p := range f.plans {
		n += p.left
	}
	return n
}

// fault says whether a write fails, and how.
func (f *Faulty) fault(op *store.Op) (how Fault, fails bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.plans {
		if p.left == 0 || !p.matches(op) {
			continue
		}
		if p.skip > 0 {
			p.skip--
			continue
		}
		p.left--
		return p.how, true
	}
	return NotApplied, false
}

// Apply implements store.Driver.
func (f *Faulty) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	results := make([]error, len(ops))
	unknown := errors.Join(store.ErrUnknown, ErrInjected)
	dropped := make([]bool, len(ops))
	var kept []store.Op
	var at []int
	for i := range ops {
		if after := i > 0 && ops[i].Follows; after && dropped[i-1] {
			dropped[i], results[i] = true, unknown
			continue
		} else if after {
			results[i] = results[i-1]
		}
		how, fails := f.fault(&ops[i])
		if fails {
			results[i] = unknown
		}
		if dropped[i] = fails && how == NotApplied; !dropped[i] {
			kept, at = append(kept, ops[i]), append(at, i)
		}
	}
	answers, err := f.Driver.Apply(ctx, kept)
	if err != nil {
		return nil, err
	}
	for n, answer := range answers {
		if results[at[n]] == nil {
			results[at[n]] = answer
		}
	}
	return results, nil
}

func (f *Faulty) readFault() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reads == 0 {
		return nil
	}
	f.reads--
	return ErrInjected
}

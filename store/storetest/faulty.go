package storetest

import (
	"context"
	"errors"
	"sync"

	"github.com/kinesin-io/kinesin/store"
)

// Fault is what happens to a write whose outcome is reported as unknown.
type Fault uint8

// The two sides of an unknown outcome.
const (
	// NotApplied drops the write.
	NotApplied Fault = iota
	// AppliedButErrored applies the write and loses the answer.
	AppliedButErrored
)

// ErrInjected is wrapped by every injected error.
var ErrInjected = errors.New("injected fault")

// Faulty is a driver that reports an unknown outcome for chosen writes and for what follows them. A write
// that follows another is not applied if the first is not; otherwise its own fault decides.
type Faulty struct {
	reads

	mu        sync.Mutex // guards the fields below
	plans     []*plan
	readsLeft int // reads of single rows that still fail
}

type plan struct {
	matches func(*store.Op) bool
	skip    int // matching writes to let through first
	left    int // writes to make fail
	how     Fault
}

// NewFaulty wraps a driver, which works until Fail is called.
func NewFaulty(d store.Driver) *Faulty {
	f := &Faulty{}
	f.reads = reads{d, f.readFault}
	return f
}

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
	f.readsLeft = n
}

// Pending returns the number of planned faults that have not happened.
func (f *Faulty) Pending() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.readsLeft
	for _, p := range f.plans {
		n += p.left
	}
	return n
}

// fault returns whether a write fails, and how.
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

func (f *Faulty) readFault(_ context.Context, isScan bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if isScan || f.readsLeft == 0 {
		return nil
	}
	f.readsLeft--
	return ErrInjected
}

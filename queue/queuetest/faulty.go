package queuetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/queue"
)

// ErrInjected is the error of every injected fault.
var ErrInjected = errors.New("injected fault")

// Fault is what happens to one write of one message.
type Fault uint8

// The faults. A caller that sees the error cannot tell which of the two it was.
const (
	NoFault           Fault = iota
	NotApplied              // not carried out, and the caller gets ErrInjected
	AppliedButErrored       // carried out, and the caller gets ErrInjected
)

// Write names a write of a driver.
type Write string

// The writes of a driver.
const (
	SendWrite    Write = "send"
	DeleteWrite  Write = "delete"
	ReleaseWrite Write = "release"
)

// Faulty is a driver some of whose writes fail, in one way or the other. Other calls go to the driver below.
type Faulty struct {
	queue.Driver

	mu     sync.Mutex
	decide func(Write, *queue.Message) Fault
}

// NewFaulty wraps d. No write fails until Decide is called.
func NewFaulty(d queue.Driver) *Faulty { return &Faulty{Driver: d} }

// Decide sets the function that decides about every message of every write from now on; nil means no
// faults. Its calls do not overlap.
func (f *Faulty) Decide(decide func(Write, *queue.Message) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.decide = decide
}

// FailNext makes the next count messages of a write fail in that way.
func (f *Faulty) FailNext(write Write, count int, fault Fault) {
	f.Decide(func(w Write, _ *queue.Message) Fault {
		if w != write || count == 0 {
			return NoFault
		}
		count--
		return fault
	})
}

// split decides the fault of each message. through are the messages that the driver below gets.
func (f *Faulty) split(write Write, messages []queue.Message) (faults []Fault, through []queue.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	faults = make([]Fault, len(messages))
	for i := range messages {
		if f.decide != nil {
			faults[i] = f.decide(write, &messages[i])
		}
		if faults[i] != NotApplied {
			through = append(through, messages[i])
		}
	}
	return faults, through
}

// Send implements queue.Driver; each message has its own fault.
func (f *Faulty) Send(ctx context.Context, messages []queue.Message) []error {
	faults, through := f.split(SendWrite, messages)
	below := f.Driver.Send(ctx, through)
	results := make([]error, len(messages))
	for i, fault := range faults {
		if fault != NotApplied {
			results[i], below = below[0], below[1:]
		}
		if fault != NoFault {
			results[i] = fmt.Errorf("%w: send", ErrInjected)
		}
	}
	return results
}

// Delete implements queue.Driver; one fault fails the whole call.
func (f *Faulty) Delete(ctx context.Context, messages []queue.Message) error {
	faults, through := f.split(DeleteWrite, messages)
	return errors.Join(injected(DeleteWrite, faults), f.Driver.Delete(ctx, through))
}

// Release implements queue.Driver; one fault fails the whole call.
func (f *Faulty) Release(ctx context.Context, messages []queue.Message, delay time.Duration) error {
	faults, through := f.split(ReleaseWrite, messages)
	return errors.Join(injected(ReleaseWrite, faults), f.Driver.Release(ctx, through, delay))
}

func injected(write Write, faults []Fault) error {
	for _, fault := range faults {
		if fault != NoFault {
			return fmt.Errorf("%w: %s", ErrInjected, write)
		}
	}
	return nil
}

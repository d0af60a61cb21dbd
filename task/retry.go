package task

import (
	"cmp"
	"math/bits"
	"time"
)

// Policy is the settings for the retries and limits of one task.
type Policy struct {
	MaxAttempts uint32
	Timeout     time.Duration // of one attempt
	BackoffMin  time.Duration
	BackoffMax  time.Duration
	Retention   time.Duration
	// KeyRetention is how long a key is held after success or delivered.
	KeyRetention time.Duration
	// PoisonBound is how many attempts in a row may be lost with their workers before the task is dead; 0:
	// PoisonBoundDefault.
	PoisonBound uint32
}

func (p Policy) poisonBound() uint32 {
	return max(cmp.Or(p.PoisonBound, PoisonBoundDefault), PoisonBoundMin)
}

// Backoff returns the pause after the given number of failures: uniform between BackoffMin and the lesser of
// BackoffMax and BackoffMin·2^failures. This is "full jitter" (AWS Architecture Blog, "Exponential Backoff
// And Jitter") above a floor, so that a retry is never immediate. jitter is 64 random bits.
func (p Policy) Backoff(failures uint32, jitter uint64) time.Duration {
	ceiling := p.BackoffMax
	if failures < 63 && p.BackoffMin > 0 && p.BackoffMin <= p.BackoffMax>>failures {
		ceiling = p.BackoffMin << failures
	}
	span := uint64(max(ceiling-p.BackoffMin, 0)) + 1
	offset, _ := bits.Mul64(jitter, span)
	return p.BackoffMin + time.Duration(offset)
}

// Timing of the enqueue timeout, the claim and the lease.
const (
	// EnqueueTimeout is how long a dispatched task first waits for a claim before it is dispatched again. It
	// is no longer than the default lease, so that a claim need not move the wake-up to be in time for the
	// end of the lease.
	EnqueueTimeout = 15 * time.Second
	// UndispatchedMax is how long a message is valid whose task has no task row yet. It is much shorter than
	// EndedMin: if the task ends before the message is received, its row is still there to refuse the claim.
	UndispatchedMax = 5 * time.Minute
	// EnqueueTimeoutMax caps the doubling of the enqueue timeout.
	EnqueueTimeoutMax = time.Hour
	// ClaimTimeout is how long a worker may take to confirm a claim, before the task is considered lost on
	// its way.
	ClaimTimeout = 10 * time.Second
	// AcquireTimeout is how long a live process may take to put an acquired task on its queue, before another
	// one does it.
	AcquireTimeout = 30 * time.Second
	// ClockBound is the largest offset between the clocks of two processes that the lease rules allow for
	// (ε).
	ClockBound = 100 * time.Millisecond
	// QuarantineMin is how long the first quarantine of a blamed task lasts at most, and how long an attempt
	// must have run before it is no longer likely to take its process down.
	QuarantineMin = 10 * time.Second
)

// quarantineDoublings bounds how often a quarantine doubles; the longest lasts months.
const quarantineDoublings = 20

// Quarantine returns how long after its start a blamed task runs alone in its process at most. If the process
// is lost in that time, the task is the cause; if it is lost later, the next quarantine is longer.
func (t *Task) Quarantine() time.Duration {
	if t.Blamed == 0 {
		return 0
	}
	return QuarantineMin << min(t.Blamed-1, quarantineDoublings)
}

// EnqueueTimeoutAfter returns the enqueue timeout, which doubles with every send or extension since the last
// claim.
func EnqueueTimeoutAfter(enqueues uint32) time.Duration {
	if enqueues >= 8 {
		return EnqueueTimeoutMax
	}
	return min(EnqueueTimeout<<enqueues, EnqueueTimeoutMax)
}

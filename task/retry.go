package task

import (
	"math/bits"
	"time"
)

// Policy is what governs the retries and limits of one task.
type Policy struct {
	MaxAttempts uint32
	Timeout     time.Duration // of one attempt
	BackoffMin  time.Duration
	BackoffMax  time.Duration
	Retention   time.Duration
}

// Backoff is the wait before the retry that follows the given number of
// failures: uniform in [BackoffMin, cap] with cap = min(BackoffMax,
// BackoffMin·2^failures). It is "full jitter" (AWS Architecture Blog,
// "Exponential Backoff And Jitter") above a floor, so that a retry is never
// immediate. jitter is 64 random bits.
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
	// EnqueueTimeout is when the scheduler first looks again at a task it sent. It
	// is no longer than the default lease, so that a claim need not move the wake-up
	// to be found again within the lease of its worker.
	EnqueueTimeout = 15 * time.Second
	// UndispatchedMax is for how long a message is good whose task has no task row yet. It is much shorter
	// than EndedMin: if the task ends before the message is received, its row is still there to refuse the
	// claim.
	UndispatchedMax = 5 * time.Minute
	// EnqueueTimeoutMax caps the doubling of the enqueue timeout.
	EnqueueTimeoutMax = time.Hour
	// ClaimTimeout is how long a claimed task may stay unconfirmed by its worker
	// before it is taken for lost on the way.
	ClaimTimeout = 10 * time.Second
	// AcquireTimeout is how long a process that lives may take to put an acquired task on its queue before
	// another one does.
	AcquireTimeout = 30 * time.Second
	// ClockBound is the largest offset between the clocks of two of our processes
	// that the lease rules allow for (ε).
	ClockBound = 100 * time.Millisecond
	// QuarantineMin is how long the first quarantine of a blamed task lasts at most, and how long an attempt
	// must have run to be no more suspected of taking its process down at any moment.
	QuarantineMin = 10 * time.Second
)

// quarantineDoublings bounds how often a quarantine doubles; the longest is of months.
const quarantineDoublings = 20

// Quarantine is for how long after its start a blamed task runs alone in its process at most. If the process
// is lost in that time, it was the task; if later, that proved nothing but that more time is needed.
func (t *Task) Quarantine() time.Duration {
	if t.Blamed == 0 {
		return 0
	}
	return QuarantineMin << min(t.Blamed-1, quarantineDoublings)
}

// EnqueueTimeoutAfter doubles with every send or extension since the last claim (the re-enqueue brake).
func EnqueueTimeoutAfter(enqueues uint32) time.Duration {
	if enqueues >= 8 {
		return EnqueueTimeoutMax
	}
	return min(EnqueueTimeout<<enqueues, EnqueueTimeoutMax)
}

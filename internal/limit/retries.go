package limit

import (
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

const (
	// retrySlices of retrySlice each are how long a first start is remembered that earned retries.
	retrySlices = 10
	retrySlice  = time.Second
	// retriesMinPerSecond is how many retries a lambda has besides, so that one with nothing but retries goes
	// on: what is not used of the last ten seconds is there at once.
	retriesMinPerSecond = 1
)

// Retries keeps the retry budgets of lambdas on this server: in any ten seconds no more retries start than a
// share of the other starts of that time, and a small minimum. The model is Finagle's RetryBudget
// (twitter.github.io/finagle, "Retry budget"): first starts deposit, retries withdraw, and deposits lapse. It
// is safe for concurrent use.
type Retries struct {
	Share func(lambda uint32) float64 // retries for each first start; 0: any number
	Clock clock.Clock

	mu sync.Mutex
	of map[uint32]*retryBudget
}

// retryBudget has what was started in each of the last slices of time.
type retryBudget [retrySlices]startsOfSlice

type startsOfSlice struct {
	number         int64 // of the slice
	first, retries int
}

// IsBounded reports whether the retries of a lambda are bounded.
func (r *Retries) IsBounded(lambda uint32) bool { return r.Share(lambda) > 0 }

// Earn notes starts that are no retries.
func (r *Retries) Earn(lambda uint32, starts int) {
	if !r.IsBounded(lambda) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b, now := r.budget(lambda)
	b.slice(now).first += starts
}

// Left returns how many retries of a lambda may start now.
func (r *Retries) Left(lambda uint32) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, now := r.budget(lambda)
	return b.left(now, r.Share(lambda))
}

// Take takes a retry; false: the budget is spent.
func (r *Retries) Take(lambda uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, now := r.budget(lambda)
	if b.left(now, r.Share(lambda)) < 1 {
		return false
	}
	b.slice(now).retries++
	return true
}

// Return gives back a retry that was taken a moment ago and not made.
func (r *Retries) Return(lambda uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, now := r.budget(lambda)
	if s := b.slice(now); s.retries > 0 {
		s.retries--
	}
}

func (r *Retries) budget(lambda uint32) (b *retryBudget, slice int64) {
	if r.of == nil {
		r.of = map[uint32]*retryBudget{}
	}
	if b = r.of[lambda]; b == nil {
		b = &retryBudget{}
		r.of[lambda] = b
	}
	return b, int64(clock.Mono(r.Clock) / retrySlice)
}

// slice returns the slice of now, empty if it was of an earlier time.
func (b *retryBudget) slice(now int64) *startsOfSlice {
	s := &b[(now%retrySlices+retrySlices)%retrySlices] // monotonic time may be negative
	if s.number != now {
		*s = startsOfSlice{number: now}
	}
	return s
}

func (b *retryBudget) left(now int64, share float64) int {
	first, retries := 0, 0
	for i := range b {
		if now-b[i].number < retrySlices {
			first, retries = first+b[i].first, retries+b[i].retries
		}
	}
	return max(0, int(share*float64(first))+retriesMinPerSecond*int(retrySlices*retrySlice/time.Second)-retries)
}

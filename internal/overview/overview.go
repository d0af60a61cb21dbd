// Package overview is what a process can tell of the installation at a glance: rates and lateness, workers,
// servers and their partitions, and what will be due. It has types and no behaviour but sums; the node fills
// them, and the console shows them.
package overview

import (
	"math"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// Window is what happened in a time until now, as far as this process saw it.
type Window struct {
	Length                 time.Duration // how much of the asked time is covered: a young process has not seen it all
	Started                float64       // first starts per second
	Failed                 float64       // failed attempts per second
	Ended                  map[string]float64
	Late50, Late95, Late99 time.Duration // of first starts
}

// Minute is one minute of the history of this process.
type Minute struct {
	At             time.Time // its beginning
	Started        uint64    // first starts
	Ended          uint64
	Failed         uint64        // attempts
	Late50, Late99 time.Duration // of first starts
}

// Worker is a worker process with a lease.
type Worker struct {
	ID      string
	Name    string // as it calls itself
	Version string // of its program; empty: not said
	Owner   string // identity; empty: unknown
	Lambdas []string
	Lease   time.Duration
	Heard   time.Time // when its newest heartbeat was received
	Lost    bool
	Here    bool // it has a stream to the server that answers
	Slots   int  // of that stream
	Used    int
}

// Server is a process that owns partitions.
type Server struct {
	Name       string
	State      string // "ready", "joining" or "leaving"
	Alive      bool
	Self       bool   // it is the one that answers
	Version    string // empty: unknown
	Partitions int
	Owns       []Owned // of those
}

// Owned is partitions of one priority of a lambda.
type Owned struct {
	Lambda, Priority string
	Shards           []int // in order
}

// Store is the state of the store.
type Store struct {
	Full    bool
	Damaged []string // files
	Metered bool     // its reads cost money
}

// Fleet is the installation as one process sees it.
type Fleet struct {
	Workers    []Worker
	WorkersMax bool // there are more workers than are listed
	Servers    []Server
	Unowned    int // partitions whose owner does not handle them
	Partitions int
	Store      Store
	OwnedMax   bool    // not all partitions are listed with their owners
	Moves      []Moved // the newest first
	NotReady   string  // why new work should go elsewhere; empty: it need not
}

// Moved is a change of which partitions the process that answers owns.
type Moved struct {
	At           time.Time
	Gained, Lost int           // partitions
	Warm         time.Duration // how long it took until all were read ahead; 0: not yet, or it gained none
}

// Forecast is how many tasks will be due, by lambda.
type Forecast struct {
	At      time.Time
	Edges   []time.Time // the ends of the buckets, which they do not include; the first bucket would be of what is overdue, which is not counted
	Lambdas []DueOf
	Rows    int // that were read
}

// DueOf is the forecast of one lambda.
type DueOf struct {
	Lambda string
	Due    []int64 // by bucket
	// Until is how far nothing is left out. Of later buckets there are at least so many. Zero: of all.
	Until    time.Time
	Variance []float64 // by bucket; 0: it is no estimate
}

// Due is a forecast of several lambdas together.
type Due struct {
	Due      []int64   // by bucket
	Variance []float64 // by bucket; 0: it is no estimate
	// Until is how far nothing is left out. Of later buckets there are at least so many. Zero: of all.
	Until time.Time
}

// Sum adds up the lambdas that may be seen.
func (f *Forecast) Sum(may func(lambda string) bool) Due {
	s := Due{Due: make([]int64, len(f.Edges)), Variance: make([]float64, len(f.Edges))}
	for i := range f.Lambdas {
		of := &f.Lambdas[i]
		if !may(of.Lambda) {
			continue
		}
		for bucket, n := range of.Due {
			s.Due[bucket] += n
		}
		for bucket, variance := range of.Variance {
			s.Variance[bucket] += variance
		}
		if !of.Until.IsZero() && (s.Until.IsZero() || of.Until.Before(s.Until)) {
			s.Until = of.Until
		}
	}
	return s
}

// In returns how many tasks are due in the buckets from first to last. off is by how many that is wrong at
// most, 19 times of 20, if it is an estimate.
func (d *Due) In(first, last int) (tasks, off int64) {
	const deviations = 1.96
	variance := 0.0
	for i := first; i <= last; i++ {
		tasks, variance = tasks+d.Due[i], variance+d.Variance[i]
	}
	return tasks, int64(math.Ceil(deviations * math.Sqrt(variance)))
}

// IsAtLeast reports whether there may be more tasks than were counted before a time.
func (d *Due) IsAtLeast(before time.Time) bool { return !d.Until.IsZero() && d.Until.Before(before) }

// Shared is a figure that all callers share. It is read at most once in a while, by the caller that finds it
// old: a thousand callers cost the reads of one.
type Shared[T any] struct {
	mu      sync.Mutex
	value   T
	again   time.Duration // monotonic time from which it is read again
	known   bool
	reading bool // a caller reads it again
}

// Get returns the value, and reads it if it is old. Callers that ask meanwhile get the old value, or wait for
// the first. The function read returns the value and for how long it lasts. Reading takes at most 1/share of
// the time.
func (s *Shared[T]) Get(c clock.Clock, share int, read func() (T, time.Duration)) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	began := clock.Mono(c)
	if s.known && (began < s.again || s.reading) {
		return s.value
	}
	if s.known {
		read = s.unlocked(read)
	}
	value, every := read()
	now := clock.Mono(c)
	s.value, s.known, s.again = value, true, now+max(every, time.Duration(share)*(now-began))
	return s.value
}

// unlocked returns a read without the lock, which is held before and after, even if the read panics.
func (s *Shared[T]) unlocked(read func() (T, time.Duration)) func() (T, time.Duration) {
	return func() (T, time.Duration) {
		s.reading = true
		s.mu.Unlock()
		defer func() {
			s.mu.Lock()
			s.reading = false
		}()
		return read()
	}
}

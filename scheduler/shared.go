package scheduler

import (
	"sync"
	"sync/atomic"

	"github.com/kinesin-io/kinesin/task"
)

// shared is what all loops of a process share.
type shared struct {
	Config

	dispatcher Dispatcher         // of Run, as is found
	found      func(t *task.Task) // may be nil

	health        *storeHealth
	validLeases   *validLeases
	inFlightLimit *inFlightLimit
	keyRowsLimit  *inFlightLimit // of the rows that wait for their limit keys
	readSemaphore *readSemaphore
	logLimiter    *logLimiter
	// acquired holds the ids of the tasks of deliver lambdas that this process has acquired and not finished.
	// A row that is acquired in its name and is not here was left by an earlier life of it.
	acquired        sync.Map
	keySlots        sync.Map                        // *keySlots by lambda
	turns           sync.Map                        // *turns by lambda
	activity        atomic.Pointer[activityRecord]  // replaced by Run and read by all
	exclusiveGroups atomic.Pointer[exclusiveGroups] // replaced by Run and read by all
	slotsShut       chan struct{}                   // has an element when a group may have to be opened anew
	attending       atomic.Pointer[attending]       // what Run waits for; nil: it works
	warmed          chan struct{}                   // has an element when a partition was read ahead for the first time
}

func newShared(c Config) *shared {
	c = c.withDefaults()
	valid, o := &validLeases{}, observer{c.Clock, &storeHealth{}}
	c.Store = observedStore{c.Store, o}
	c.Leases = observedLeases{c.Leases, o, valid}
	s := &shared{
		Config: c, health: o.health, validLeases: valid, inFlightLimit: newInFlightLimit(c.FlightRows), keyRowsLimit: newInFlightLimit(c.FlightRows),
		readSemaphore: newReadSemaphore(),
		logLimiter:    newLogLimiter(),
		warmed:        make(chan struct{}, 1), slotsShut: make(chan struct{}, 1),
	}
	s.exclusiveGroups.Store(&exclusiveGroups{})
	s.activity.Store(&activityRecord{})
	return s
}

// isGone reports whether a process is not this one, and gone for sure.
func (s *shared) isGone(process string) bool {
	_, gone := s.Presence(process)
	return process != s.Process && gone
}

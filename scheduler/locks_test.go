package scheduler

import (
	"sync"
	"testing"

	"github.com/kinesin-io/kinesin/internal/lease"
)

// TestSharedStateIsLocked is for the race detector: what stands behind one lock is used by goroutines that
// nothing else orders.
func TestSharedStateIsLocked(_ *testing.T) {
	var leases validLeases
	var health storeHealth
	var running sync.WaitGroup
	for _, use := range []func(){
		func() { leases.note(&lease.Lease{Worker: "w", Receipt: at}) },
		func() { leases.end("w") },
		func() { health.began(at, false) },
		func() { health.ended(at, false, nil) },
	} {
		for range 2 {
			running.Go(func() {
				for range 50 {
					use()
				}
			})
		}
	}
	running.Wait()
}

package scheduler

import (
	"sync"
	"testing"

	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/task"
)

// TestSharedStateIsLocked is for the race detector: what stands behind one lock is used by goroutines that
// nothing else orders.
func TestSharedStateIsLocked(_ *testing.T) {
	var h hand
	var leases goodLeases
	var dog watchdog
	var running sync.WaitGroup
	for _, use := range []func(){
		func() { h.take(task.ID{1}) },
		func() { h.drop(task.ID{1}) },
		func() { leases.note(&lease.Lease{Worker: "w", Receipt: at}) },
		func() { leases.end("w") },
		func() { dog.began(at, false) },
		func() { dog.ended(at, false, nil) },
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

package partition_test

import (
	"sync"
	"testing"

	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/task"
)

// TestSharedStateIsLocked is for the race detector: what stands behind one lock is used by goroutines that
// nothing else orders.
func TestSharedStateIsLocked(_ *testing.T) {
	o := partition.NewOwner(partition.Static("a", "b"))
	var running sync.WaitGroup
	for _, use := range []func(){
		func() { o.Owned([]task.Partition{{Lambda: 1}}) },
		func() { o.Presence("c") },
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

package dynamo

import (
	"sync"
	"testing"

	"github.com/kinesin-io/kinesin/task"
)

// TestSharedStateIsLocked is for the race detector: goroutines that nothing else orders use the state behind
// one lock.
func TestSharedStateIsLocked(_ *testing.T) {
	var o overduePayloads
	var running sync.WaitGroup
	for _, use := range []func(){
		func() { o.begin(task.ID{1}, 5) },
		func() { o.forget(task.ID{1}) },
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

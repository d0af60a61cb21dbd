package mem_test

import (
	"sync"
	"testing"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/task"
)

// TestSharedStateIsLocked is for the race detector: goroutines without any other order use what one lock
// guards.
func TestSharedStateIsLocked(t *testing.T) {
	d := mem.New(clock.Real(), mem.Config{DepthMax: 10})
	var running sync.WaitGroup
	for _, use := range []func(){
		func() { d.Send(t.Context(), []queue.Message{{Task: task.Task{Due: 1}}}) },
		func() { _, _ = d.Depth(t.Context(), queue.Name{}) },
		func() { d.Room(queue.Name{}) },
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

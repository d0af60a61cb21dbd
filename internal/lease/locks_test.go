package lease_test

import (
	"sync"
	"testing"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// TestSharedStateIsLocked lets the race detector see state that several goroutines use, and that only one
// lock orders.
func TestSharedStateIsLocked(t *testing.T) {
	b := lease.NewBook(store.New(mem.New(), store.Config{}), clock.Real())
	l, err := b.Open(t.Context(), "w", "", 0, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for _, use := range []func(){
		func() { _, _ = b.Renew(t.Context(), l.Worker) }, // others may be faster
		func() { b.ClearSuspect(l.Worker, task.ID{1}) },
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

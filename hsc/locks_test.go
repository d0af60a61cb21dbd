package hsc

import (
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/lease"
)

// TestSharedStateIsLocked lets the race detector see state that several goroutines use, and that only one
// lock orders.
func TestSharedStateIsLocked(_ *testing.T) {
	sess, g := newSession(&lease.Lease{Worker: "w", Length: time.Second}), &slotGroup{slots: 2, changed: make(chan struct{}, 1)}
	var running sync.WaitGroup
	for _, use := range []func(){
		func() { sess.returnSlots(g, sess.takeSlots(g, 1, false)) },
		func() { sess.invalidate([16]byte{1}) },
		func() { sess.noteRunning([]attempt{{number: 1}}) },
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

package inbound

import (
	"testing"
	"testing/synctest"
)

// Who gave up waiting does not make a call that goes on one that nobody waits for.
func TestAllEarlierCallsAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGenerations()
		end := g.begin()
		g.turn()
		over := g.turn()
		synctest.Wait()
		select {
		case <-over:
			t.Error("over while a call that began before goes on")
		default:
		}
		end()
		<-over
	})
}

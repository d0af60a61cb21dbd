package intake

import (
	"testing"
	"testing/synctest"
)

// A second waiter waits for calls that began before the first one, although the first one gave up.
func TestAllEarlierCallsAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newCalls()
		end := g.begin()
		g.over()
		over := g.over()
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

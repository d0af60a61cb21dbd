package inbound_test

import (
	"testing"
	"time"
)

func TestATaskOfADeliverLambdaWithGatesGetsARow(t *testing.T) {
	runOutgoing(t, func(c *settings) { c.Start.Counted = func(uint32) bool { return true } }, func(o *outgoing) {
		o.accept(due(0))
		o.accept(due(time.Minute))
		if len(o.delivered()) != 0 || len(o.waitingRows()) != 2 {
			t.Errorf("%d delivered, %d rows", len(o.delivered()), len(o.waitingRows()))
		}
	})
}

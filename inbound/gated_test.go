package inbound_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// The schedule asks the gates, so nothing goes past it.
func TestATaskOfALambdaWithGatesGoesThroughTheSchedule(t *testing.T) {
	gated := func(_ *fixture, c *settings) { c.Start.Counted = func(uint32) bool { return true } }
	runWith(t, gated, func(f *fixture) {
		for _, key := range []string{"", "k"} {
			one := in(0)
			one.Key = key
			r := f.schedule(one)[0]
			if r.Problem != nil || f.messages() != 0 {
				t.Fatalf("%v, %d messages", r.Problem, f.messages())
			}
			if rows := f.wakeupRows(); rows[len(rows)-1].State != task.Scheduled {
				t.Errorf("with key %q it is stored as %s", key, rows[len(rows)-1].State)
			}
		}
		if len(f.added) != 1 || len(f.awake) != 1 || len(f.sent) != 0 {
			t.Errorf("the scheduler was told of %d, %d and %d tasks", len(f.added), len(f.awake), len(f.sent))
		}
	})
}

func TestATaskOfADeliverLambdaWithGatesGetsARow(t *testing.T) {
	runOutgoing(t, func(c *settings) { c.Start.Counted = func(uint32) bool { return true } }, func(o *outgoing) {
		o.accept(due(0))
		o.accept(due(time.Minute))
		if len(o.delivered()) != 0 || len(o.waitingRows()) != 2 {
			t.Errorf("%d delivered, %d rows", len(o.delivered()), len(o.waitingRows()))
		}
	})
}

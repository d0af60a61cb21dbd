package scheduler

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// TestNoCallLooksOldAfterAStep: a wake-up row with a key, whose call is under way, is not taken for a remnant
// because the clock was set.
func TestNoCallLooksOldAfterAStep(t *testing.T) {
	v := clock.NewVirtual(at, 1)
	k := &clocktest.Settable{Clock: v.Process(0)}
	l := newLoop(newShared(Config{Clock: k, FlightRows: 1}), task.Partition{}, 0, partitionRowsMin)
	stored := task.Task{ID: task.ID{1}, Key: "k", State: task.Scheduled, Created: at}
	concludes := func(when string, want store.Conclusion) {
		t.Helper()
		l.readClock()
		if got := store.Conclude(&stored, &task.Task{}, l.nowWithoutSteps()); got != want {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	v.Advance(time.Second)
	concludes("a second old", store.Undispatched)
	k.Step(time.Hour)
	concludes("as the clock is set by an hour", store.Undispatched)
	v.Advance(time.Minute)
	k.Step(time.Hour)
	concludes("as it is set again", store.Undispatched)
	k.Step(-3 * time.Hour)
	concludes("as it is set back", store.Undispatched)
	k.Step(2 * time.Hour)
	concludes("as it is set forward", store.Undispatched)
	v.Advance(store.CallMax)
	concludes("when the call is over in any case", store.Remnant)
}

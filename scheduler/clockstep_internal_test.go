package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// TestNoCallLooksOldAfterAStep: a wake-up row with a key, whose call is under way, is not taken for a
// leftover row because the clock was set.
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
	concludes("when the call is over in any case", store.Leftover)
}

// TestHeartbeatsAreAwaitedAnewAfterAStep: a lease whose heartbeats others received is judged by stamps of the wall clock,
// so its worker has the time that it has after an outage.
func TestHeartbeatsAreAwaitedAnewAfterAStep(t *testing.T) {
	v := clock.NewVirtual(at, 1)
	wall := &clocktest.Settable{Clock: v.Process(0)}
	k := newLoopClock(wall, tickOf(wall))
	for _, by := range []time.Duration{time.Second, -time.Hour, 0, time.Hour} {
		want := k.heartbeatsSince()
		v.Advance(time.Second)
		wall.Step(by)
		if k.read(wall); by.Abs() >= graceStepMin {
			want = tickOf(wall)
		}
		if got := k.heartbeatsSince(); got != want {
			t.Errorf("step of %v: heartbeats count from %d, want %d", by, got, want)
		}
	}
}

// heardLeases is a book in which every worker was heard a second ago.
type heardLeases struct{ clock clock.Clock }

func (h heardLeases) Look(_ context.Context, worker string) (lease.Lease, error) {
	heard := clock.Steady(h.clock).Add(-time.Second)
	return lease.Lease{Worker: worker, Version: 1, Length: 15 * time.Second, Heard: heard, Came: heard}, nil
}

func (heardLeases) MarkLost(context.Context, lease.Lease) error { return nil }

// TestAStepWithinARoundGivesNoClaimUp: a task that was claimed after the clock was set back, in the round
// that began before, looks as if it had been claimed long ago.
func TestAStepWithinARoundGivesNoClaimUp(t *testing.T) {
	k := &clocktest.Settable{Clock: clock.NewVirtual(at, 1).Process(0)}
	s := newShared(Config{Clock: k, FlightRows: 1, Leases: heardLeases{k}})
	l := newLoop(s, task.Partition{}, tickOf(k).Add(-time.Hour), partitionRowsMin)
	decided := func() []task.Order {
		r := newRecheck(&managedMode{loop: l})
		now := k.Now()
		orders, err := r.decideAll(t.Context(), []task.Task{{
			ID: task.ID{1}, State: task.Claimed, Worker: "w", Attempt: 1, Due: now, ClaimedAt: now, Wake: now,
		}})
		if err != nil {
			t.Fatal(err)
		}
		return orders
	}
	l.readClock()
	k.Step(-time.Minute)
	if orders := decided(); len(orders) != 0 || len(l.inFlight.byID) != 1 {
		t.Errorf("%d orders, %d in flight", len(orders), len(l.inFlight.byID))
	}
	l.readClock()
	if orders := decided(); len(orders) != 0 || len(l.inFlight.byID) != 1 {
		t.Errorf("in the next round: %d orders, %d in flight", len(orders), len(l.inFlight.byID))
	}
}

// TestAStepMovesNoCheckThatWasPlannedAfterIt has tasks dispatched before the clock is set, and after it but
// before that is noticed: both are checked 15 s later.
func TestAStepMovesNoCheckThatWasPlannedAfterIt(t *testing.T) {
	const start, by = task.Instant(1_700_000_000_000_000), 24 * time.Hour
	s := newInFlightSet(newInFlightLimit(10))
	now := start.Add(by)
	for i, checkAt := range []task.Instant{start.Add(15 * time.Second), now.Add(15 * time.Second)} {
		s.put(inFlightTask{id: task.ID{byte(i + 1)}, checkAt: checkAt, rowAt: checkAt})
	}
	s.shift(now, by)
	for id, one := range s.byID {
		if one.checkAt != now.Add(15*time.Second) || one.rowAt != one.checkAt {
			t.Errorf("task %d is checked at %v, and its row at %v", id[0], one.checkAt.Time().UTC(), one.rowAt.Time().UTC())
		}
	}
}

package mem_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/queue/queuetest"
	"github.com/kinesin-io/kinesin/task"
)

const start = task.Instant(1_700_000_000_000_000)

func TestConformance(t *testing.T) {
	queuetest.Run(t, func(*testing.T) queuetest.Harness {
		v := clock.NewVirtual(start, 1)
		v.Settle(synctest.Wait)
		c := v.Process(30 * time.Millisecond)
		const depthMax = 8
		return queuetest.Harness{
			Driver: mem.New(c, mem.Config{DepthMax: depthMax}), Now: c.Now, Advance: v.Advance,
			DepthMax: depthMax, Exact: true,
		}
	})
}

// TestAStepOfTheClockMovesDelaysAndNotDueTimes sets the wall clock while one message is hidden by a delay and
// one until it is due.
func TestAStepOfTheClockMovesDelaysAndNotDueTimes(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			v := clock.NewVirtual(start, 1)
			k := &clocktest.Settable{Clock: v.Process(0)}
			d := mem.New(k, mem.Config{})
			due := func(id byte, in time.Duration) queue.Message {
				return queue.Message{Task: task.Task{ID: task.ID{id}, Due: start.Add(in)}}
			}
			name := queue.NameFor(&task.Task{})
			receive := func() (ids []byte) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond) // nothing comes while time stands still
				defer cancel()
				got, _ := d.Receive(ctx, []queue.Name{name}, 10, 0)
				for i := range got {
					ids = append(ids, got[i].Task.ID[0])
				}
				return ids
			}
			if err := errors.Join(d.Send(t.Context(), []queue.Message{due(1, -2*time.Hour), due(2, 30*time.Minute)})...); err != nil {
				t.Fatal(err)
			}
			got, err := d.Receive(t.Context(), []queue.Name{name}, 10, 0)
			if err != nil || len(got) != 1 {
				t.Fatalf("%d messages (%v), want the one that is due", len(got), err)
			}
			if err := d.Release(t.Context(), got, 10*time.Second); err != nil {
				t.Fatal(err)
			}
			k.Step(by)
			d.ClockStepped(by)
			v.Advance(10*time.Second - time.Millisecond)
			if ids := receive(); slices.Contains(ids, 1) || slices.Contains(ids, 2) != (by > 0) {
				t.Errorf("got %v before the delay was over", ids)
			}
			v.Advance(2 * time.Millisecond)
			if ids := receive(); !slices.Equal(ids, []byte{1}) {
				t.Errorf("got %v when the delay was over", ids)
			}
		})
	}
}

// TestAgesDoNotFollowTheWallClock: a scheduler may ask for the age before anybody has noticed that the clock
// was set, and takes a message for lost, or for there, by it.
func TestAgesDoNotFollowTheWallClock(t *testing.T) {
	for _, by := range []time.Duration{-24 * time.Hour, 24 * time.Hour} {
		v := clock.NewVirtual(start, 1)
		k := &clocktest.Settable{Clock: v.Process(0)}
		d := mem.New(k, mem.Config{})
		if err := errors.Join(d.Send(t.Context(), []queue.Message{{Task: task.Task{ID: task.ID{1}, Due: start.Add(-48 * time.Hour)}}})...); err != nil {
			t.Fatal(err)
		}
		v.Advance(3 * time.Second)
		k.Step(by)
		for _, noticed := range []bool{false, true} {
			if noticed {
				d.ClockStepped(by)
			}
			if depth, err := d.Depth(t.Context(), queue.NameFor(&task.Task{})); err != nil || depth.Oldest != 3*time.Second {
				t.Errorf("set by %v, noticed %v: age %v (%v), want 3s", by, noticed, depth.Oldest, err)
			}
		}
	}
}

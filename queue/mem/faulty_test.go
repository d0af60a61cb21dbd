package mem_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/queue/queuetest"
	"github.com/kinesin-io/kinesin/task"
)

// A Faulty without faults passes the suite like the driver that it wraps.
func TestFaultyConformsWithoutFaults(t *testing.T) {
	queuetest.Run(t, func(*testing.T) queuetest.Harness {
		v := clock.NewVirtual(start, 1)
		v.Settle(synctest.Wait)
		c := v.Process(0)
		return queuetest.Harness{
			Driver: queuetest.NewFaulty(mem.New(c, mem.Config{DepthMax: 9})), Now: c.Now, Advance: v.Advance,
			DepthMax: 9, Exact: true,
		}
	})
}

func TestFaultyFailsBothWays(t *testing.T) {
	name := queue.Name{Lambda: 1}
	messages := make([]queue.Message, 4)
	for i := range messages {
		messages[i].Task = task.Task{ID: task.ID{byte(i)}, Partition: task.Partition{Lambda: 1}}
	}
	for _, c := range []struct {
		fault                                  queuetest.Fault
		afterSend, afterRelease, inFlightAtEnd int
	}{
		{queuetest.NotApplied, 2, 0, 2},
		{queuetest.AppliedButErrored, 4, 2, 0},
	} {
		f := queuetest.NewFaulty(mem.New(clock.NewVirtual(start, 1).Process(0), mem.Config{}))
		f.FailNext(queuetest.SendWrite, 2, c.fault)
		for i, err := range f.Send(t.Context(), messages) {
			if errors.Is(err, queuetest.ErrInjected) != (i < 2) {
				t.Errorf("fault %d: outcome %d is %v", c.fault, i, err)
			}
		}
		if d, _ := f.Depth(t.Context(), name); d.Visible != c.afterSend {
			t.Errorf("fault %d: %d sent, want %d", c.fault, d.Visible, c.afterSend)
		}
		got, err := f.Receive(t.Context(), []queue.Name{name}, 4, 0)
		if err != nil {
			t.Fatal(err)
		}
		f.FailNext(queuetest.ReleaseWrite, 2, c.fault)
		if err := f.Release(t.Context(), got[:2], 0); !errors.Is(err, queuetest.ErrInjected) {
			t.Errorf("release: %v", err)
		}
		if d, _ := f.Depth(t.Context(), name); d.Visible != c.afterRelease {
			t.Errorf("fault %d: %d released, want %d", c.fault, d.Visible, c.afterRelease)
		}
		f.FailNext(queuetest.DeleteWrite, 2, c.fault)
		if err := f.Delete(t.Context(), got); !errors.Is(err, queuetest.ErrInjected) {
			t.Errorf("delete: %v", err)
		}
		if d, _ := f.Depth(t.Context(), name); d.InFlight != c.inFlightAtEnd {
			t.Errorf("fault %d: %d in flight, want %d", c.fault, d.InFlight, c.inFlightAtEnd)
		}
	}
}

package node

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// unreadable is a store whose scans fail, for a while.
type unreadable struct {
	store.Driver

	failing atomic.Bool
}

func (u *unreadable) ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	if u.failing.Load() {
		return nil, errors.New("too many open files")
	}
	return u.Driver.ScanSchedule(ctx, p, after, through, limit)
}

func TestPartitionsThatCannotBeReadAreNotReady(t *testing.T) {
	u := &unreadable{}
	over := func(d store.Driver) store.Driver { u.Driver = d; return u }
	inRig(t, drivers{over: over}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		n := r.nodes[0].node
		time.Sleep(time.Minute)
		if why := n.NotReady(); why != "" {
			t.Fatalf("not ready: %s", why)
		}
		u.failing.Store(true)
		time.Sleep(15 * time.Second) // a read-ahead comes every 5 s
		if why := n.NotReady(); !strings.Contains(why, "3 partitions cannot be read") {
			t.Errorf("says %q while partitions cannot be read", why)
		}
		u.failing.Store(false)
		time.Sleep(30 * time.Second)
		if why := n.NotReady(); why != "" {
			t.Errorf("after they can be read again: %s", why)
		}
	})
}

// hanging is a store whose scans hang, for a while.
type hanging struct {
	store.Driver

	until atomic.Pointer[chan struct{}]
}

func (h *hanging) ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	if until := h.until.Load(); until != nil {
		<-*until
	}
	return h.Driver.ScanSchedule(ctx, p, after, through, limit)
}

func TestALoopThatIsStuckIsNamed(t *testing.T) {
	h := &hanging{}
	over := func(d store.Driver) store.Driver { h.Driver = d; return h }
	inRig(t, drivers{over: over}, 1, nil, func(r *rig) {
		r.lambda(admin.Lambda{Name: "mail"})
		n := r.nodes[0].node
		time.Sleep(time.Hour)
		if why := n.NotLive() + n.NotReady(); why != "" {
			t.Errorf("after an hour without work: %s", why)
		}
		until := make(chan struct{})
		h.until.Store(&until)
		time.Sleep(stalledMax)
		if why := n.NotLive(); why != "" {
			t.Errorf("too soon: %s", why)
		}
		time.Sleep(20 * time.Second)
		if why := n.NotLive(); !strings.Contains(why, "stuck: scheduler") {
			t.Errorf("says %q while the scheduler hangs", why)
		}
		h.until.Store(nil)
		close(until)
		time.Sleep(time.Second)
		if why := n.NotLive(); why != "" {
			t.Errorf("after it went on: %s", why)
		}
	})
}

func TestTheAlarmForPartitionsWithoutAnOwner(t *testing.T) {
	share := &scheduler.Assignment{Members: []string{"a", "b", "c"}, Load: map[string]int{"a": 3, "b": 4}}
	following := map[string]bool{"a": true}
	s := lateOwners{since: map[string]time.Duration{}}
	at := func(now time.Duration, want int) {
		t.Helper()
		if got := s.unowned(share, func(m string) bool { return following[m] }, now); got != want {
			t.Errorf("%d unowned after %v, want %d", got, now, want)
		}
	}
	at(0, 0)
	at(9*time.Second, 0)
	at(unownedAfter, 4)
	following["b"], following["a"] = true, false
	at(12*time.Second, 0)
	at(23*time.Second, 3)
	following["a"] = true
	at(24*time.Second, 0)
	following["a"] = false
	at(25*time.Second, 0) // it counts from anew
}

func TestTheSeriesOfAFleet(t *testing.T) {
	inCrew(t, 0, 0, func(c *crew) {
		c.ready(c.join())
		time.Sleep(12 * time.Second)
		gained := 0.0
		for _, p := range c.alive {
			if got := p.series(t, "kinesin_fleet_members"); got != 2 {
				t.Errorf("%v members", got)
			}
			if got := p.series(t, "kinesin_partitions_owned"); got < 8 {
				t.Errorf("%v partitions owned", got)
			}
			if got := p.series(t, "kinesin_partitions_unowned") + p.series(t, "kinesin_schedule_lag_seconds"); got != 0 {
				t.Errorf("%v unowned, or late", got)
			}
			gained += p.series(t, "kinesin_partitions_moved_total")
		}
		if gained < 24+8+8 {
			t.Errorf("%v moves", gained)
		}
		for range 100 {
			c.schedule(sdk.Item{Lambda: "mail", In: 200 * time.Second})
		}
		time.Sleep(100 * time.Second)
		due := 0.0
		for _, p := range c.alive {
			due += p.series(t, "kinesin_due_next_5m_tasks")
		}
		if due != 100 {
			t.Errorf("%v due, want 100", due)
		}
		c.kill(c.alive[1])
		time.Sleep(3 * time.Second)
		if got := c.alive[0].series(t, "kinesin_partitions_unowned"); got != 0 {
			t.Errorf("%v unowned 3 s after a process was killed", got)
		}
		time.Sleep(150 * time.Second)
	})
}

// series returns the sum of a metric of a process.
func (p *process) series(t *testing.T, name string) (sum float64) {
	t.Helper()
	all, err := p.node.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range all {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
		return sum
	}
	t.Fatalf("no series %s", name)
	return 0
}

// full is a store that may be out of space, or wait for its disk.
type full struct {
	store.Driver

	full    bool
	waiting time.Duration
}

func (f *full) Capabilities() store.Capabilities {
	return store.Capabilities{
		Full:   func() bool { return f.full },
		Health: func() store.Health { return store.Health{Waiting: f.waiting} },
	}
}

// TestWhyANodeIsNotReady checks every reason not to be ready.
func TestWhyANodeIsNotReady(t *testing.T) {
	d := &full{Driver: storemem.New()}
	n := &Node{scheduler: scheduler.New(scheduler.Config{Clock: clock.Real()}), store: store.New(d, store.Config{})}
	for _, c := range []struct {
		change func()
		want   string
	}{
		{func() {}, "starting"},
		{func() { n.running.Store(true) }, "reading ahead"},
		{func() { n.warm.Store(true) }, ""},
		{func() { d.full = true }, "the store is full"},
		{func() { d.full = false }, ""},
		{func() { d.waiting = unreadMax }, ""},
		{func() { d.waiting = unreadMax + time.Second }, "completed no write for 6s"},
		{func() { d.waiting = 0 }, ""},
		{func() { n.draining.Store(true) }, "stopping"},
	} {
		c.change()
		if got := n.NotReady(); !strings.Contains(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

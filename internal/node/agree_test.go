package node

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/partition/fleet"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// crowd is many memberships by lease rows over one store, without partitions.
type crowd struct {
	ctx   context.Context //nolint:containedctx // of the test, inside its bubble
	rows  *store.Store
	all   []*fleet.Membership
	stops []context.CancelFunc
	ended sync.WaitGroup
}

// join starts n more members.
func (c *crowd) join(n int) {
	for range n {
		name := fmt.Sprintf("kinesin-7d9f8b6c5-%05d", len(c.all))
		m := fleet.New(fleet.Config{
			Rows: c.rows, Self: fleet.NewName(name, uint64(len(c.all))<<24), Host: name, Group: "default/kinesin",
			Clock: clock.Real(), Log: slog.New(slog.DiscardHandler),
		})
		ctx, stop := context.WithCancel(c.ctx)
		c.ended.Go(func() { _ = m.Run(ctx) })
		c.all, c.stops = append(c.all, m), append(c.stops, stop)
	}
}

// leave ends the last n members.
func (c *crowd) leave(n int) {
	left := len(c.all) - n
	for _, stop := range c.stops[left:] {
		stop()
	}
	c.all, c.stops = c.all[:left], c.stops[:left]
}

// agree waits until all members know exactly each other, and returns how long that took.
func (c *crowd) agree() time.Duration {
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		if !slices.ContainsFunc(c.all, func(m *fleet.Membership) bool { return len(m.Members()) != len(c.all) }) {
			return time.Since(began)
		}
	}
}

// TestManyPodsAgree has hundreds of pods share a hundred thousand partitions: all compute the same
// assignment, soon and at little cost. The log has the figures of docs/reference/scale.md.
func TestManyPodsAgree(t *testing.T) {
	pods, partitions := 500, 100_000
	if testing.Short() {
		pods, partitions = 100, 20_000
	}
	all := make([]task.Partition, partitions)
	for i := range all {
		all[i] = task.Partition{Lambda: uint32(i / 20), Priority: uint8(i % 2), Shard: uint16(i / 2 % 10)}
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		c := &crowd{ctx: ctx, rows: store.New(storemem.New(), store.Config{Clock: clock.Real()})}
		heap, cpu := used()
		c.join(pods)
		t.Logf("%d pods that start at once know each other after %v", pods, c.agree())
		after, spent := used()
		t.Logf("%d KiB and %v of CPU for each until then", (after-heap)/uint64(pods)/1024, (spent-cpu)/time.Duration(pods))

		views := []partition.Ownership{{Membership: c.all[0]}, {Membership: c.all[pods/2]}, {Membership: c.all[pods-1]}}
		before, members := views[0].Owners(all)
		for _, v := range views[1:] {
			if owners, _ := v.Owners(all); !slices.Equal(owners, before) {
				t.Error("two processes with the same members arrive at different owners")
			}
		}
		load := map[string]int{}
		for _, owner := range before {
			load[owner]++
		}
		most := 0
		for _, n := range load {
			most = max(most, n)
		}
		if len(load) != pods || most > partition.LoadMax(pods, partitions) {
			t.Errorf("%d of %d members have partitions, one of them %d", len(load), len(members), most)
		}
		c.leave(1)
		t.Logf("one leaves: known by all after %v", c.agree())
		now, _ := views[0].Owners(all)
		moved, minimum := 0, 0
		for i := range all {
			if before[i] != now[i] {
				moved++
			}
			if !slices.Contains(members, before[i]) || before[i] == views[2].Self() {
				minimum++
			}
		}
		t.Logf("%d of %d partitions moved, %d had to; the fullest had %d", moved, partitions, minimum, most)
		if moved > minimum+minimum/10+16 {
			t.Errorf("%d partitions moved, %d had to", moved, minimum)
		}
		stop()
		c.ended.Wait()
	})
}

// used returns the heap and the CPU time of the process.
func used() (heap uint64, cpu time.Duration) {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return m.HeapAlloc, time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

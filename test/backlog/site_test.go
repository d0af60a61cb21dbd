package backlog

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/node"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
	"github.com/kinesin-io/kinesin/test/harness"
)

// site is a whole Kinesin in this process, over an embedded store whose reads are counted.
type site struct {
	*harness.Node

	t    *testing.T
	rows *counting
}

// newSite opens a store in a new directory and starts a node over it.
func newSite(t *testing.T) *site {
	t.Helper()
	if testing.Short() {
		t.Skip("stands for a minute before what it makes")
	}
	db, err := pebble.Open(t.TempDir(), pebble.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &site{t: t, rows: &counting{Driver: db}}
	s.start()
	return s
}

// start runs a node over the store.
func (s *site) start() {
	s.t.Helper()
	s.Node = harness.RunNode(s.t, node.Config{Store: s.rows, Queue: queuemem.New(clock.Real(), queuemem.Config{})})
}

// lambda makes a lambda of one partition.
func (s *site) lambda(name string) {
	s.t.Helper()
	s.Lambda(admin.Lambda{Name: name, Shards: 1, Timeout: 24 * time.Hour})
}

// work runs a worker until the test is over. Its handler goes on for as long as a task's payload says.
func (s *site) work(lambda string, slots int) {
	s.t.Helper()
	harness.Work(s.Node, lambda, func(ctx context.Context, t *sdk.Task[time.Duration]) error {
		if t.Args == 0 {
			return nil
		}
		select {
		case <-time.After(t.Args):
			return nil
		case <-ctx.Done():
			return sdk.Snooze(time.Hour)
		}
	}, sdk.Slots(slots), sdk.Grace(time.Second))
}

// schedule stores n tasks, due at one instant, that run for so long.
func (s *site) schedule(lambda string, n int, due time.Time, runsFor time.Duration) {
	s.t.Helper()
	const perCall = 1000
	payload := strconv.AppendInt(nil, int64(runsFor), 10)
	for start := 0; start < n; start += perCall {
		s.Schedule(slices.Repeat([]sdk.Item{{Lambda: lambda, At: due, Payload: payload}}, min(perCall, n-start))...)
	}
}

// probe schedules a task that does nothing every 50 ms for a while, due a second later, and returns how late
// they started.
func (s *site) probe(lambda string, during time.Duration) (late []time.Duration) {
	s.t.Helper()
	const apart = 50 * time.Millisecond
	var ids []sdk.ID
	tick := time.NewTicker(apart)
	defer tick.Stop()
	for range during / apart {
		<-tick.C
		ids = append(ids, s.Schedule(sdk.Item{Lambda: lambda, In: time.Second, Payload: []byte("0")})...)
	}
	for _, task := range s.Succeed(ids) {
		late = append(late, task.Lateness())
	}
	return late
}

// counting is a store that counts the rows that are read.
type counting struct {
	*pebble.Driver

	scans, scanned, read atomic.Int64
}

func (c *counting) ScanSchedule(ctx context.Context, p task.Partition, after store.WakeKey, through task.Instant, limit int) ([]task.Task, error) {
	rows, err := c.Driver.ScanSchedule(ctx, p, after, through, limit)
	c.scans.Add(1)
	c.scanned.Add(int64(len(rows)))
	return rows, err
}

func (c *counting) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	c.read.Add(int64(len(ids)))
	return c.Driver.Tasks(ctx, ids)
}

// Close leaves the store open: another node goes on with it.
func (*counting) Close() error { return nil }

// reads counts the rows that were read up to a moment.
type reads struct {
	at                   time.Time
	scans, scanned, read int64
}

func (c *counting) now() reads {
	return reads{time.Now(), c.scans.Load(), c.scanned.Load(), c.read.Load()}
}

// perSecond returns how many rows were read since then, of both kinds together.
func (r reads) perSecond(before reads) float64 {
	return float64(r.scanned-before.scanned+r.read-before.read) / r.at.Sub(before.at).Seconds()
}

// residentBytes returns the memory of this process: server, client and workers.
func residentBytes(tb testing.TB) int64 {
	tb.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		tb.Skip(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return kib << 10
}

package backlog

import (
	"context"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/partition"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// batch is how many tasks are scheduled with a call, and how many rows are written at a time.
const batch = 1000

// site is a whole Kinesin in this process, over an embedded store whose reads are counted.
type site struct {
	t      *testing.T
	rows   *counting
	client *sdk.Client
	stop   func()
}

// newSite opens a store in a new directory and starts a node over it.
func newSite(t *testing.T) *site {
	t.Helper()
	db, err := pebble.Open(t.TempDir(), pebble.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, rows: &counting{Driver: db}}
	s.start()
	t.Cleanup(func() {
		s.stop()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// start runs a node over the store.
func (s *site) start() {
	s.t.Helper()
	n, err := node.New(s.t.Context(), node.Config{
		Store: s.rows, Queue: queuemem.New(clock.Real(), queuemem.Config{}), Clock: clock.Real(), Membership: partition.Static("one"),
		Log: slog.New(slog.NewTextHandler(s.t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	http := api.NewServer(n.Handler())
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	var group sync.WaitGroup
	group.Go(func() { _ = n.Run(ctx) })
	group.Go(func() { _ = http.Serve(listener) })
	if s.client, err = sdk.NewClient("http://" + listener.Addr().String()); err != nil {
		s.t.Fatal(err)
	}
	s.stop = func() {
		s.client.Close()
		cancel()
		_ = http.Close()
		group.Wait()
		_ = n.Close()
	}
}

// lambda makes a lambda of one partition.
func (s *site) lambda(name string) {
	s.t.Helper()
	l := sdk.LambdaInfo{Name: name, Priorities: []string{"normal"}, Shards: 1, Timeout: 24 * time.Hour}
	if _, _, err := s.client.CreateLambda(s.t.Context(), l); err != nil {
		s.t.Fatal(err)
	}
}

// work runs a worker until the test is over. Its handler goes on for as long as a task's payload says.
func (s *site) work(lambda string, slots int) {
	s.t.Helper()
	w := sdk.NewWorker(s.client, sdk.Slots(slots), sdk.Grace(time.Second))
	sdk.NewLambda[time.Duration](lambda).Handle(w, func(ctx context.Context, t *sdk.Task[time.Duration]) error {
		if t.Args == 0 {
			return nil
		}
		select {
		case <-time.After(t.Args):
			return nil
		case <-ctx.Done():
			return sdk.Snooze(time.Hour)
		}
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); _ = w.Run(ctx) }()
	s.t.Cleanup(func() { cancel(); <-done })
}

// schedule stores n tasks, due at one instant, that run for so long.
func (s *site) schedule(lambda string, n int, due time.Time, runsFor time.Duration) {
	s.t.Helper()
	payload := strconv.AppendInt(nil, int64(runsFor), 10)
	for start := 0; start < n; start += batch {
		items := slices.Repeat([]sdk.Item{{Lambda: lambda, At: due, Payload: payload}}, min(batch, n-start))
		results, err := s.client.ScheduleMany(s.t.Context(), items)
		if err != nil {
			s.t.Fatal(err)
		}
		for i := range results {
			if results[i].Err != nil {
				s.t.Fatal(results[i].Err)
			}
		}
	}
}

// probe schedules a task that does nothing every 50 ms for a while, due a second later, and returns how late
// they started, sorted.
func (s *site) probe(lambda string, during time.Duration) []time.Duration {
	s.t.Helper()
	const apart = 50 * time.Millisecond
	var ids []sdk.ID
	tick := time.NewTicker(apart)
	defer tick.Stop()
	for range during / apart {
		<-tick.C
		results, err := s.client.ScheduleMany(s.t.Context(), []sdk.Item{{Lambda: lambda, In: time.Second, Payload: []byte("0")}})
		if err != nil {
			s.t.Fatal(err)
		}
		ids = append(ids, results[0].ID)
	}
	results, err := s.client.Wait(s.t.Context(), ids...)
	if err != nil {
		s.t.Fatal(err)
	}
	var late []time.Duration
	for i := range results {
		if results[i].Task.State != sdk.StateSuccess {
			s.t.Fatalf("task %s is %s", results[i].Task.ID, results[i].Task.State)
		}
		late = append(late, results[i].Task.Lateness())
	}
	slices.Sort(late)
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

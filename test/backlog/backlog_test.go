package backlog

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
	"github.com/kinesin-io/kinesin/test/harness"
)

const (
	// lateMax and memoryMax are bounds for a busy machine: the figures say how it really was.
	lateMax   = 3 * time.Second
	memoryMax = 1 << 30
	probing   = 15 * time.Second
)

// figures prints and judges what is the same in all tests: reads since a moment, memory, the files, and how
// late new tasks were.
func (s *site) figures(name string, since reads, readsMax float64, memoryBefore int64, late []time.Duration) {
	s.t.Helper()
	now := s.rows.now()
	each := now.perSecond(since)
	harness.Figure(s.t, name+"_rows_read_per_second", int(each))
	harness.Figure(s.t, name+"_scans_rows_scanned_task_rows_read", []int64{now.scans - since.scans, now.scanned - since.scanned, now.read - since.read})
	if each > readsMax {
		s.t.Errorf("%.0f rows were read a second, want at most %.0f", each, readsMax)
	}
	memory := residentBytes(s.t)
	harness.Figure(s.t, name+"_memory_before_mib", memoryBefore>>20)
	harness.Figure(s.t, name+"_memory_mib", memory>>20)
	if memory > memoryMax {
		s.t.Errorf("%d MiB of memory", memory>>20)
	}
	m := s.rows.Metrics()
	harness.Figure(s.t, name+"_disk_mib", m.DiskBytes>>20)
	harness.Figure(s.t, name+"_tombstones", m.Tombstones)
	harness.Figure(s.t, name+"_read_amplification", m.ReadAmplification)
	s.lateness(name+"_new_tasks", late)
}

func (s *site) lateness(name string, late []time.Duration) {
	s.t.Helper()
	if worst := harness.Quantiles(s.t, name+"_late", late); worst > lateMax {
		s.t.Errorf("%s: a task was %v late, want at most %v", name, worst, lateMax)
	}
}

// A backlog of tasks that are due, and that no worker takes, is not read by every read-ahead, and delays no
// other lambda.
func TestTasksThatNoWorkerTakes(t *testing.T) {
	n := harness.Either(1_000_000, 20_000)
	s := newSite(t)
	s.lambda("backlog")
	s.lambda("other")
	s.work("other", 10)
	s.lateness("backlog_before", s.probe("other", 5*time.Second))
	memory := residentBytes(t)
	due := time.Now().Add(time.Second)
	s.schedule("backlog", n, due, 0)
	time.Sleep(5 * time.Second) // until the first read-ahead behind the last of them

	harness.Figure(t, "backlog_tasks", n)
	before := s.rows.now()
	s.figures("backlog", before, 5000, memory, s.probe("other", probing))
}

// Tasks of one partition that run for hours are not read by every read-ahead, and do not delay those that
// are due beside them.
func TestTasksThatRunForHours(t *testing.T) {
	const slots = 10_000
	n := harness.Either(50_000, 2_000)
	s := newSite(t)
	s.lambda("long")
	memory := residentBytes(t)
	for range n/slots + 1 {
		s.work("long", slots)
	}
	due := time.Now().Add(2 * time.Second)
	s.schedule("long", n, due, 10*time.Hour)
	time.Sleep(time.Until(due.Add(65 * time.Second))) // until they lie behind the margin of a read-ahead

	harness.Figure(t, "running_tasks", n)
	before := s.rows.now()
	s.figures("running", before, 5000, memory, s.probe("long", probing))
}

// TestAHeadOfLeftoverRows has a crash leave wake-up rows of ended tasks at the head of a partition. The first
// full scan removes them, and they delay nobody.
func TestAHeadOfLeftoverRows(t *testing.T) {
	n := harness.Either(1_000_000, 20_000)
	s := newSite(t)
	s.lambda("crashed")
	memory := residentBytes(t)
	s.Stop()
	p := s.partition("crashed")
	harness.Leftovers(t, s.rows, p, n, nil)
	harness.Figure(t, "leftovers", n)
	harness.Figure(t, "leftovers_disk_before_mib", s.rows.Metrics().DiskBytes>>20)

	before, began := s.rows.now(), time.Now()
	s.start()
	gone := make(chan time.Duration)
	go func() {
		defer close(gone)
		for s.remain(p) {
			time.Sleep(20 * time.Millisecond)
		}
		gone <- time.Since(began)
	}()
	s.work("crashed", 10)
	late := s.probe("crashed", probing)
	after := <-gone
	harness.Figure(t, "leftovers_gone_after", after)
	passed := s.rows.now()
	harness.Figure(t, "leftovers_rows_scanned", passed.scanned-before.scanned)
	if scanned, read := passed.scanned-before.scanned, passed.read-before.read; scanned > int64(2*n) || read > int64(2*n) {
		t.Errorf("%d leftover rows took the scan of %d rows and the read of %d", n, scanned, read)
	}
	s.lateness("leftovers_while_they_go", late)
	head := time.Now()
	if s.remain(p) {
		t.Error("a leftover row came back")
	}
	harness.Figure(t, "leftovers_scan_of_the_head", time.Since(head))
	s.figures("leftovers", passed, 1000, memory, s.probe("crashed", 5*time.Second))
}

// partition returns the only partition of a lambda.
func (s *site) partition(lambda string) task.Partition {
	s.t.Helper()
	lambdas := catalog.New(store.New(s.rows, store.Config{}), clock.Real(), harness.Log(s.t), catalog.Limits{})
	entry, err := lambdas.Find(s.t.Context(), lambda)
	if err != nil {
		s.t.Fatal(err)
	}
	return task.Partition{Lambda: entry.Ref}
}

// remain reports whether there are wake-up rows of more than half an hour ago.
func (s *site) remain(p task.Partition) bool {
	through := task.InstantOf(time.Now().Add(-time.Minute))
	rows, err := s.rows.Driver.ScanSchedule(s.t.Context(), p, store.WakeKey{}, through, 1)
	return err != nil || len(rows) > 0
}

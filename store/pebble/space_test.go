package pebble_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// smallDisk is a file system of a set size, of which a set part is free.
type smallDisk struct {
	vfs.FS

	total, free atomic.Uint64
	broken      atomic.Bool // writes of data files fail until the ballast is removed
}

func (s *smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	free := s.free.Load()
	return vfs.DiskUsage{AvailBytes: free, TotalBytes: s.total.Load(), UsedBytes: s.total.Load() - free}, nil
}

func (s *smallDisk) Remove(name string) error {
	if strings.Contains(name, "ballast") {
		s.broken.Store(false)
	}
	return s.FS.Remove(name)
}

func (s *smallDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if s.broken.Load() && strings.HasSuffix(name, ".sst") {
		return nil, syscall.ENOSPC
	}
	return s.FS.Create(name, category)
}

func newSmallDisk(total, free uint64) *smallDisk {
	s := &smallDisk{FS: vfs.NewMem()}
	s.total.Store(total)
	s.free.Store(free)
	return s
}

func newOps(n int) []store.Op {
	row := crashTask(n, 0)
	return []store.Op{
		{Kind: store.PutWakeup, Task: row, New: true},
		{Kind: store.PutPayload, Task: row, Payload: []byte("p"), New: true},
		{Kind: store.PutTask, Task: row, New: true},
	}
}

// TestFullDiskDrains fills the disk: new tasks are refused, everything else goes through, and with some
// space more than the reserve new tasks are accepted again.
func TestFullDiskDrains(t *testing.T) {
	const mib = 1 << 20
	disk := newSmallDisk(1000*mib, 500*mib)
	var text bytes.Buffer
	d, err := pebble.Open("data", pebble.Config{FS: disk, Logger: slog.New(slog.NewTextHandler(&text, nil)), MemTableBytes: mib})
	if err != nil {
		t.Fatal(err)
	}
	apply := func(want error, ops ...store.Op) {
		t.Helper()
		results, err := d.Apply(t.Context(), ops)
		if err != nil {
			t.Fatal(err)
		}
		for i, err := range results {
			if !errors.Is(err, want) || (want == nil && err != nil) {
				t.Errorf("op %d: %v, want %v", i, err, want)
			}
		}
	}
	apply(nil, newOps(1)...)
	disk.free.Store(99 * mib)
	pebble.ExpireSpaceCheck(d)
	if !d.Capabilities().Full() {
		t.Error("not full below a tenth of the disk")
	}
	apply(store.ErrFull, newOps(2)...)
	chain, err := d.Apply(t.Context(), store.FirstWithRow(crashTask(2, 0)))
	if err != nil || !errors.Is(chain[0], store.ErrFull) || !errors.Is(chain[1], store.ErrSkipped) {
		t.Errorf("a chain: %v, %v, want ErrFull and ErrSkipped", chain, err)
	}
	dispatched := crashTask(1, 0)
	claimed := dispatched
	claimed.Seq, claimed.State = 2, task.Claimed
	apply(nil, store.Op{Kind: store.ReplaceTask, Task: claimed}, store.Op{Kind: store.DeleteWakeup, Task: dispatched},
		store.Op{Kind: store.DeletePayload, Task: dispatched}, store.Op{Kind: store.PutTask, Task: crashTask(3, 0)})
	disk.free.Store(120 * mib)
	pebble.ExpireSpaceCheck(d)
	apply(store.ErrFull, newOps(2)...)
	disk.free.Store(160 * mib)
	pebble.ExpireSpaceCheck(d)
	apply(nil, newOps(2)...)
	if d.Capabilities().Full() {
		t.Error("full with half more than the reserve free")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"store is full", "free_bytes=", "space again"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("log lacks %q:\n%s", want, text.String())
		}
	}
}

// TestBallastIsGivenUp fills the disk at once: the ballast file is deleted, and the write succeeds.
func TestBallastIsGivenUp(t *testing.T) {
	disk := newSmallDisk(1<<30, 1<<30)
	d, err := pebble.Open("data", pebble.Config{FS: disk, MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	info, err := disk.Stat("data/ballast")
	if err != nil || info.Size() < 1<<20 {
		t.Fatalf("no ballast: %v", err)
	}
	if results, err := d.Apply(t.Context(), newOps(1)); err != nil || errors.Join(results...) != nil {
		t.Fatal(results, err)
	}
	disk.broken.Store(true)
	if err := d.Close(); err != nil { // flushes
		t.Errorf("close on a full disk: %v", err)
	}
	if disk.broken.Load() {
		t.Error("the ballast is still there")
	}
	d, err = pebble.Open("data", pebble.Config{FS: disk, MemTableBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := d.Tasks(t.Context(), []task.ID{crashTask(1, 0).ID}); err != nil || rows[0].ID.IsZero() {
		t.Errorf("%v, %v", rows, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestFullAtStart opens on a disk without room: what is stored can be drained at once.
func TestFullAtStart(t *testing.T) {
	disk := newSmallDisk(64<<20, 10<<20)
	d, err := pebble.Open("data", pebble.Config{FS: disk})
	if err != nil {
		t.Fatal(err)
	}
	if !d.Capabilities().Full() {
		t.Error("not full with 10 MiB of 64 free")
	}
	results, err := d.Apply(t.Context(), newOps(1))
	if err != nil || !errors.Is(results[0], store.ErrFull) {
		t.Errorf("%v, %v", results, err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

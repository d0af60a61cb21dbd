package pebble_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// TestSmallFileSystem fills real file systems of some sizes until the store refuses new tasks, and then
// walks everything that was accepted through its whole life, twice. It needs the right to mount.
func TestSmallFileSystem(t *testing.T) {
	if testing.Short() {
		t.Skip("writes some hundred megabytes")
	}
	for mib, rounds := range map[int]int{48: 2, 80: 1} {
		t.Run(fmt.Sprintf("%dMiB", mib), func(t *testing.T) {
			d := openOnTmpfs(t, mib)
			for round := range rounds {
				least := mib * 1500
				stored := fill(t, d, round, least)
				drain(t, d, stored)
				t.Logf("round %d: %d tasks, then full and drained; %+v", round, stored, d.Metrics())
				if stored < least {
					t.Errorf("only %d tasks of 300 bytes on %d MiB", stored, mib)
				}
			}
		})
	}
}

// openOnTmpfs opens a store on a file system of its own, of so many MiB, until the test ends. It needs the
// right to mount.
func openOnTmpfs(t *testing.T, mib int) *pebble.Driver {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		t.Skipf("mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	d, err := pebble.Open(dir+"/data", pebble.Config{Fatal: func(err error) { t.Errorf("fatal: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func fillTask(round, n int) task.Task {
	row := crashTask(round, 0)
	row.Due = task.Instant(n%1000+1) * 1000
	row.Wake, row.WakeRow.At = row.Due, row.Due
	binary.BigEndian.PutUint64(row.ID[8:], uint64(n+1))
	row.Payload = make([]byte, 200)
	for i := range row.Payload {
		row.Payload[i] = byte((n + 1) * (i + 7) * 2654435761 >> 13) // does not compress
	}
	row.PayloadSize = 200
	return row
}

// fill adds tasks until the store is full, and returns how many. The files that an earlier round left may
// take a while to be compacted: until there are as many as there have to be, it waits for room.
func fill(t *testing.T, d *pebble.Driver, round, atLeast int) (stored int) {
	t.Helper()
	const batch = 500
	for next := 0; next < 5_000_000; next += batch {
		ops := make([]store.Op, batch)
		for i := range ops {
			ops[i] = store.Op{Kind: store.PutWakeup, Task: fillTask(round, next+i), New: true}
		}
		results, err := d.Apply(t.Context(), ops)
		if err != nil {
			t.Fatal(err)
		}
		full := false
		for _, err := range results {
			switch {
			case errors.Is(err, store.ErrFull):
				full = true
			case err != nil:
				t.Fatal(err)
			default:
				stored++
			}
		}
		if full && (stored >= atLeast || !hasRoom(t, d)) {
			return stored
		}
	}
	t.Fatal("never full")
	return 0
}

// hasRoom waits for a full store to take new tasks again: by compactions, or by sweeps, which come with every
// server.
func hasRoom(t *testing.T, d *pebble.Driver) bool {
	t.Helper()
	const compactMax, sweepEvery = time.Minute, time.Second
	for deadline := time.Now().Add(compactMax); d.Capabilities().Full(); time.Sleep(sweepEvery) {
		if _, err := d.Sweep(t.Context(), 1<<62, 500); err != nil {
			t.Fatal(err)
		}
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// drain dispatches, claims, ends and sweeps everything.
func drain(t *testing.T, d *pebble.Driver, want int) {
	t.Helper()
	drained := 0
	for {
		rows, err := d.ScanSchedule(t.Context(), crashPart, store.WakeKey{}, 1<<62, 500)
		if err != nil {
			t.Fatal(err)
		}
		if len(rows) == 0 {
			break
		}
		drained += len(rows)
		for step := range 3 {
			var ops []store.Op
			for i := range rows {
				ops = append(ops, drainOps(&rows[i], step)...)
			}
			results, err := d.Apply(t.Context(), ops)
			if err := errors.Join(err, errors.Join(results...)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.Sweep(t.Context(), 1<<62, 1000); err != nil {
			t.Fatal(err)
		}
	}
	if drained != want {
		t.Errorf("%d tasks of %d were drained", drained, want)
	}
}

func drainOps(row *task.Task, step int) []store.Op {
	switch step {
	case 0:
		row.State, row.Wake = task.Enqueued, 5000
		return []store.Op{{Kind: store.PutTask, Task: *row}}
	case 1:
		row.Seq, row.State, row.Wake = 2, task.Claimed, 6000
	case 2:
		row.Seq, row.State, row.Wake, row.Ended, row.ExpireAt = 3, task.Success, 0, 7000, 9000
	}
	return store.Change(*row, false, false)
}

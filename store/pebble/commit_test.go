package pebble_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// openCounting opens a store that counts the syncs of its log.
func openCounting(t *testing.T) (d *pebble.Driver, syncs *atomic.Int64) {
	t.Helper()
	syncs = new(atomic.Int64)
	files := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if logSync(op) {
			syncs.Add(1)
		}
		return nil
	}))
	return openOn(t, files, pebble.Config{}), syncs
}

func patientPut(n int) []store.Op {
	ops := store.FirstWithRow(crashTask(n, 0))
	for i := range ops {
		ops[i].Patient, ops[i].New = true, false
	}
	return ops
}

func applyOK(t *testing.T, d *pebble.Driver, ops []store.Op) {
	t.Helper()
	if results, err := d.Apply(t.Context(), ops); err != nil || errors.Join(results...) != nil {
		t.Errorf("%v, %v", results, err)
	}
}

// TestPatientWritesShareASync lets many callers write at once: each is on disk when it is acknowledged, with
// far fewer syncs than writes.
func TestPatientWritesShareASync(t *testing.T) {
	d, syncs := openCounting(t)
	const callers, each = 8, 20
	before := syncs.Load()
	var running sync.WaitGroup
	for c := range callers {
		running.Go(func() {
			for i := range each {
				at := syncs.Load()
				applyOK(t, d, patientPut(1000*c+i))
				if syncs.Load() == at {
					t.Error("acknowledged without a sync")
				}
			}
		})
	}
	running.Wait()
	if n := syncs.Load() - before; n > callers*each/2 {
		t.Errorf("%d syncs for %d writes", n, callers*each)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestNobodyWaitsForPatience checks that a read, a write and a Close do not wait for the time of a
// patient write to run out, and take it with them: with a patience of an hour each would hang.
func TestNobodyWaitsForPatience(t *testing.T) {
	for name, hurry := range map[string]func(*testing.T, *pebble.Driver){
		"read": func(t *testing.T, d *pebble.Driver) {
			t.Helper()
			if rows, err := d.Tasks(t.Context(), []task.ID{crashTask(1, 0).ID}); err != nil || rows[0].ID.IsZero() {
				t.Errorf("%v, %v", rows, err)
			}
		},
		"write": func(t *testing.T, d *pebble.Driver) {
			t.Helper()
			applyOK(t, d, []store.Op{{Kind: store.PutTask, Task: crashTask(2, 0)}})
		},
		"conflict": func(t *testing.T, d *pebble.Driver) {
			t.Helper()
			results, err := d.Apply(t.Context(), []store.Op{{Kind: store.PutTask, Task: crashTask(1, 0)}})
			if err != nil || !errors.Is(results[0], store.ErrConflict) {
				t.Errorf("%v, %v", results, err)
			}
		},
		"close": func(*testing.T, *pebble.Driver) {},
	} {
		t.Run(name, func(t *testing.T) {
			d := openOn(t, vfs.NewMem(), pebble.WithPatience(pebble.Config{}, time.Hour))
			var running sync.WaitGroup
			running.Go(func() { applyOK(t, d, patientPut(1)) })
			for n := 0; n == 0; { // until it is visible
				rows, err := d.ScanSchedule(t.Context(), crashPart, store.WakeKey{}, 1<<62, 1)
				if err != nil {
					t.Fatal(err)
				}
				n = len(rows)
			}
			hurry(t, d)
			if name != "close" {
				running.Wait()
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			running.Wait()
		})
	}
}

// TestPatientCallsOfManyGroups sends calls that do not fit one group, for their size or because the second
// chain conflicts with the first: they are on disk as a whole when they are acknowledged.
func TestPatientCallsOfManyGroups(t *testing.T) {
	var large []store.Op
	for n := range 5 {
		large = append(large, store.Op{Kind: store.PutPayload, Task: crashTask(n, 0), Payload: make([]byte, 200<<10), Patient: true})
	}
	large = append(large, store.Op{Kind: store.DeletePayload, Task: crashTask(99, 0), Patient: true})
	twice := append(patientPut(1), patientPut(1)...)
	hasty := append(patientPut(1), patientPut(1)...)
	hasty[0].Patient = false
	for name, c := range map[string]struct {
		ops       []store.Op
		conflicts int
	}{"large": {large, 0}, "twice": {twice, 2}, "hasty": {hasty, 2}} {
		t.Run(name, func(t *testing.T) {
			d, syncs := openCounting(t)
			before := syncs.Load()
			results, err := d.Apply(t.Context(), c.ops)
			conflicts := 0
			for _, result := range results {
				if errors.Is(result, store.ErrConflict) {
					conflicts++
				} else if result != nil {
					t.Error(result)
				}
			}
			if err != nil || conflicts != c.conflicts || syncs.Load() == before {
				t.Errorf("%v, %v, %d syncs", results, err, syncs.Load()-before)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

package pebble_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// TestAFullStoreThatIsEmptiedTakesTasksAgain fills real file systems, has all that was accepted run, end and
// be swept, and then only waits. It needs the right to mount.
func TestAFullStoreThatIsEmptiedTakesTasksAgain(t *testing.T) {
	if testing.Short() {
		t.Skip("writes some hundred megabytes")
	}
	const sweepEvery, recoverMax = 100 * time.Millisecond, 10 * time.Second // a server sweeps every 30 s
	for _, mib := range []int{64, 160} {
		t.Run(fmt.Sprintf("%dMiB", mib), func(t *testing.T) {
			d := openOnTmpfs(t, mib)
			ids := fillPayloads(t, d)
			began := time.Now()
			for first := true; (first || d.Capabilities().Full()) && time.Since(began) < recoverMax; first = false {
				if _, err := d.Sweep(t.Context(), 1<<62, len(ids)+1); err != nil {
					t.Fatal(err)
				}
				time.Sleep(sweepEvery)
			}
			t.Logf("%d ended tasks; %v until new ones are accepted; %+v", len(ids), time.Since(began), d.Metrics())
			if d.Capabilities().Full() {
				t.Errorf("still full %v after all was swept", recoverMax)
			}
		})
	}
}

// fillPayloads adds tasks with payload rows until the store is full, and ends them all.
func fillPayloads(t *testing.T, d *pebble.Driver) (ids []task.ID) {
	t.Helper()
	const payloadBytes, fullMax = 30_000, 100_000
	rng, payload := rand.NewChaCha8([32]byte{1}), make([]byte, payloadBytes)
	for n := 1; n < fullMax; n++ {
		row := fillTask(0, n)
		row.Payload, row.PayloadSize = nil, payloadBytes
		_, _ = rng.Read(payload)
		results, err := d.Apply(t.Context(), []store.Op{
			{Kind: store.PutPayload, Task: row, Payload: slices.Clone(payload), New: true}, {Kind: store.PutWakeup, Task: row, New: true},
		})
		if err != nil {
			t.Fatal(err)
		}
		if errors.Is(errors.Join(results...), store.ErrFull) {
			return ids
		}
		ids = append(ids, row.ID)
		for step := range 3 {
			results, err := d.Apply(t.Context(), drainOps(&row, step))
			if err := errors.Join(err, errors.Join(results...)); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Fatal("never full")
	return nil
}

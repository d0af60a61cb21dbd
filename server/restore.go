package server

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/feature/backup"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// RestoreReport is the result of a Restore.
type RestoreReport struct {
	Created time.Time // when the backup was made
	Files   int
	Bytes   int64
	Live    int64 // tasks that have not ended
	Overdue int64 // live tasks that are due: they start as soon as a server runs on the data
}

const (
	// countEvery is how often Restore checks whether the store has counted its tasks.
	countEvery = 10 * time.Millisecond
	// overduePage is how many wake-up rows one read returns.
	overduePage = 1000
)

// Restore writes a backup to dataDir, which must be empty or not exist, and counts its tasks: an archive, or of a
// place the recovery point that is the newest not later than at, or for the zero time the newest. It checks the whole
// backup first; with an error dataDir is unchanged.
func Restore(ctx context.Context, from string, at time.Time, dataDir string, log *slog.Logger) (RestoreReport, error) {
	var report RestoreReport
	fill := func(into string) error {
		m, err := backup.Extract(ctx, from, at, into)
		report.Created, report.Files, report.Bytes = m.Created, len(m.Files), m.Bytes()
		return err
	}
	look := func(ctx context.Context, d *pebble.Driver) error { return report.count(ctx, d) }
	return report, pebble.Restore(ctx, dataDir, pebble.Config{Logger: log}, fill, look)
}

// count counts the tasks of a store.
func (r *RestoreReport) count(ctx context.Context, d store.Driver) error {
	depths, ready := d.Capabilities().Depths()
	for ; !ready; depths, ready = d.Capabilities().Depths() {
		if err := clock.Sleep(ctx, clock.Real(), countEvery); err != nil {
			return fmt.Errorf("count the tasks: %w", err)
		}
	}
	now := clock.Real().Now()
	for p, depth := range depths {
		for _, n := range depth {
			r.Live += n
		}
		overdue, err := countOverdue(ctx, d, p, now)
		if err != nil {
			return fmt.Errorf("count the tasks that are overdue: %w", err)
		}
		r.Overdue += overdue
	}
	return nil
}

// countOverdue counts the wake-up rows of a partition up to now; each live task has one.
func countOverdue(ctx context.Context, d store.Driver, p task.Partition, now task.Instant) (n int64, err error) {
	for after := (store.WakeKey{}); ; {
		rows, err := d.ScanSchedule(ctx, p, after, now, overduePage)
		if err != nil {
			return n, err
		}
		n += int64(len(rows))
		if len(rows) < overduePage {
			return n, nil
		}
		after = store.KeyOf(&rows[len(rows)-1])
	}
}

// DataCounts counts what VerifyData found.
type DataCounts = pebble.Counts

// DataSalvaged counts what SalvageData copied.
type DataSalvaged = pebble.Salvaged

// VerifyData reads all of a data directory that no server uses, and changes nothing. It calls found with each
// problem, and returns an error if it could not look.
func VerifyData(ctx context.Context, dir string, log *slog.Logger, found func(problem string)) (DataCounts, error) {
	return pebble.Verify(ctx, dir, pebble.Config{Logger: log}, found)
}

// SalvageData copies what can still be read of a data directory that no server uses to a new one. It calls
// lost with each thing that cannot be read.
func SalvageData(ctx context.Context, dir, out string, log *slog.Logger, lost func(loss string)) (DataSalvaged, error) {
	return pebble.Salvage(ctx, dir, out, pebble.Config{Logger: log}, lost)
}

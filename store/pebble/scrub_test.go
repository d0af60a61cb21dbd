package pebble_test

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// tableStore has this many rows, which do not compress.
const (
	tableTasks   = 400
	tablePayload = 4 << 10
)

// tableStore is a running store with all its rows in data files, of which one is returned.
func tableStore(t *testing.T, c pebble.Config) (d *pebble.Driver, files *vfs.MemFS, table string) {
	t.Helper()
	files = vfs.NewMem()
	d = openOn(t, files, c)
	random := rand.NewChaCha8([32]byte{1})
	for i := range tableTasks {
		row := markTask(i)
		row.Payload = make([]byte, tablePayload)
		_, _ = random.Read(row.Payload)
		row.PayloadSize = tablePayload
		applyOK(t, d, store.FirstWithRow(row))
	}
	if err := errors.Join(pebble.Flush(d), pebble.Compact(t.Context(), d)); err != nil {
		t.Fatal(err)
	}
	names, err := pebble.Tables(d)
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	for _, name := range names {
		if len(readFile(t, files, name)) > size {
			table, size = name, len(readFile(t, files, name))
		}
	}
	if size < tableTasks*tablePayload/4 {
		t.Fatalf("the largest data file, %s, has %d bytes", table, size)
	}
	return d, files, table
}

// flipInPlace changes a bit in the middle of a file that is open.
func flipInPlace(t *testing.T, files *vfs.MemFS, name string) {
	t.Helper()
	content, err := files.UnsafeGetFileDataBuffer("data/" + name)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
}

// The next pass finds a flipped bit in a block that nobody reads. It keeps to its rate, and logs and shows
// the damage once.
func TestScrubFindsAFlippedBit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d, files, table := tableStore(t, pebble.Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), CacheBytes: 1})
		began := time.Now()
		pebble.Scrub(t.Context(), d)
		health := d.Capabilities().Health()
		if len(health.Damaged) != 0 || health.Scrubs != 1 || health.ScrubbedBytes < tableTasks*tablePayload {
			t.Errorf("a sound store: %+v", health)
		}
		least := time.Duration(health.ScrubbedBytes) * time.Second / pebble.ScrubBytesPerSecondMax * 9 / 10
		if took := time.Since(began); took < least {
			t.Errorf("%d bytes were read in %s, want at least %s", health.ScrubbedBytes, took, least)
		}
		flipInPlace(t, files, table)
		for range 2 {
			pebble.Scrub(t.Context(), d)
		}
		if health := d.Capabilities().Health(); len(health.Damaged) != 1 || health.Damaged[0] != "data/"+table {
			t.Errorf("damaged %q, want %s", health.Damaged, table)
		}
		if n := strings.Count(log.String(), "data file is damaged"); n != 1 {
			t.Errorf("logged %d times, want once:\n%s", n, log.String())
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The first pass runs soon after the start, and the next one a day later.
func TestScrubsComeByThemselves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, _, _ := tableStore(t, pebble.Config{})
		time.Sleep(time.Hour)
		if n := d.Capabilities().Health().Scrubs; n != 1 {
			t.Errorf("%d passes in the first hour, want 1", n)
		}
		time.Sleep(48 * time.Hour)
		if n := d.Capabilities().Health().Scrubs; n != 3 {
			t.Errorf("%d passes after two days more, want 3", n)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Reads of rows in a damaged block fail. All other rows are read and written as before.
func TestADamagedBlockTakesNothingElseWithIt(t *testing.T) {
	d, files, table := tableStore(t, pebble.Config{CacheBytes: 1})
	flipInPlace(t, files, table)
	readable, refusedRows, refusedTogether := 0, 0, 0
	for i := range tableTasks {
		rows, err := d.Tasks(t.Context(), []task.ID{markTask(i).ID})
		switch {
		case errors.Is(err, store.ErrCorrupt) && strings.Contains(err.Error(), table):
			refusedRows++
		case err != nil || rows[0].ID.IsZero():
			t.Fatalf("task %d: %v, %v", i, rows, err)
		default:
			readable++
		}
	}
	ids := make([]task.ID, tableTasks)
	for i := range ids {
		ids[i] = markTask(i).ID
	}
	rows, err := d.Tasks(t.Context(), ids)
	if err != nil {
		t.Fatalf("rows that can be read are refused with those that cannot: %v", err)
	}
	for i := range rows {
		if rows[i].State == task.Unknown {
			refusedTogether++
		}
		if rows[i].ID != ids[i] {
			t.Errorf("row %d is of task %s, want %s", i, rows[i].ID, ids[i])
		}
	}
	if refusedTogether != refusedRows {
		t.Errorf("%d task rows cannot be read with others, %d alone", refusedTogether, refusedRows)
	}
	wakeups := 0
	for i := range tableTasks {
		row := markTask(i)
		rows, err := d.Wakeups(t.Context(), []store.WakeKey{store.KeyOf(&row)})
		switch {
		case errors.Is(err, store.ErrCorrupt):
			refusedRows++
		case err != nil || rows[0].ID.IsZero():
			t.Fatalf("wake-up row %d: %v, %v", i, rows, err)
		default:
			wakeups++
		}
	}
	t.Logf("%d task rows and %d wake-up rows are readable, %d are not", readable, wakeups, refusedRows)
	if refusedRows == 0 || refusedRows > tableTasks/10 {
		t.Errorf("%d of %d rows are refused, want those of a block", refusedRows, 2*tableTasks)
	}
	applyOK(t, d, store.FirstWithRow(crashTask(9, 0)))
	if health := d.Capabilities().Health(); len(health.Damaged) != 1 {
		t.Errorf("damaged: %q", health.Damaged)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// The engine tries again and again to compact a damaged file. Damage there ends the store with an error that
// names the file.
func TestDamageThatStopsMergingEndsTheStore(t *testing.T) {
	var fatal []error
	d, files, table := tableStore(t, pebble.Config{CacheBytes: 1, Fatal: func(err error) { fatal = append(fatal, err) }})
	flipInPlace(t, files, table)
	for n := range tableTasks {
		_, _ = d.Apply(t.Context(), []store.Op{{Kind: store.DeleteWakeup, Task: markTask(n)}})
		if err := errors.Join(pebble.Flush(d), pebble.Compact(t.Context(), d)); err == nil {
			t.Fatal("a damaged file was merged")
		}
		if len(fatal) > 0 {
			break
		}
	}
	if len(fatal) != 1 || !errors.Is(fatal[0], store.ErrCorrupt) || !strings.Contains(fatal[0].Error(), table) {
		t.Errorf("%v, want one error that names %s", fatal, table)
	}
	_ = d.Close()
}

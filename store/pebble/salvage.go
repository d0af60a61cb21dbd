package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"slices"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Salvaged is what Salvage copied.
type Salvaged struct {
	Tasks    int `json:"task_rows"`
	Wakeups  int `json:"wake_up_rows"`
	Payloads int `json:"payload_rows"`
	Controls int `json:"control_rows"`
	Woken    int `json:"wake_up_rows_made"` // of live tasks whose own were lost
	Losses   int `json:"losses"`
}

// salvageBatchBytes is written at a time.
const salvageBatchBytes = 1 << 20

// Salvage copies every row that can still be read, of a store that no process has open, to a new store in the
// directory out, which must be empty or not there; it changes nothing in dir. Of a row it takes the newest
// state that can be read: an older one when the newest was lost, so that a task may run again, and one that
// was deleted may be back. What follows from rows is made anew: the order of expiry, the list of dead
// letters, and the wake-up row of a live task that has none. lost is called with each thing that could not be
// read.
func Salvage(ctx context.Context, dir, out string, c Config, lost func(loss string)) (Salvaged, error) {
	from := newDriver(dir, c)
	if err := from.lockExisting(); err != nil {
		return Salvaged{}, err
	}
	s := &salvager{from: from}
	s.lost = func(format string, args ...any) {
		s.report.Losses++
		lost(fmt.Sprintf(format, args...))
	}
	err := s.run(ctx, out, c)
	return s.report, errors.Join(err, from.lock.Close())
}

type salvager struct {
	from, to *Driver
	report   Salvaged
	lost     func(format string, args ...any)

	batch *pebbledb.Batch
	bound int64 // no id with a row has reached it
	key   []byte
}

func (s *salvager) run(ctx context.Context, out string, c Config) error {
	if names, err := s.from.cfg.FS.List(out); err == nil && len(names) > 0 {
		return fmt.Errorf("directory %s is not empty: name one that is, or is not there", out)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("directory %s: %w", out, err)
	}
	sources, err := s.sources()
	if err != nil {
		return err
	}
	s.to = newDriver(out, c)
	if err := s.to.open(); err != nil {
		return err
	}
	err = s.copy(ctx, newest(sources))
	if err = errors.Join(err, s.to.closeFiles()); err != nil {
		return err
	}
	return s.wake(ctx, out, c)
}

// sources are the data files and the logs of the store.
func (s *salvager) sources() ([]salvageSource, error) {
	tables, err := s.tables()
	if err != nil {
		return nil, err
	}
	logs, err := s.logs()
	if err != nil {
		return nil, err
	}
	written := readLogs(s.from, logs, s.lost)
	return append(tables, salvageSource{all: slices.Values(written)}), nil
}

// tables are the data files that the manifest names. Without it, or when one of them is missing, those in the
// directory have to do, in some of which there may be rows that were deleted since.
func (s *salvager) tables() ([]salvageSource, error) {
	sources, err := s.namedTables()
	if err == nil {
		return sources, nil
	}
	s.lost("the list of data files cannot be read or one is missing, so that all that are there are taken, and rows that were deleted may be back: %s",
		firstLine(err))
	names, err := tablesIn(s.from.cfg.FS, s.from.dir)
	for _, name := range names {
		sources = append(sources, salvageSource{all: readTable(s.from, name, s.lost)})
	}
	return sources, err
}

func (s *salvager) namedTables() (sources []salvageSource, err error) {
	db, err := s.from.openReadOnly(withoutLogs{s.from.cfg.FS})
	if err != nil {
		return nil, err
	}
	levels, err := db.SSTables()
	if err = errors.Join(err, db.Close()); err != nil {
		return nil, err
	}
	for _, level := range levels {
		for i := range level {
			name := level[i].BackingSSTNum.String() + ".sst"
			sources = append(sources, salvageSource{bytes.Clone(level[i].Smallest.UserKey), readTable(s.from, name, s.lost)})
		}
	}
	return sources, nil
}

// withoutLogs is a file system that does not show logs, which the engine would refuse when they are damaged.
type withoutLogs struct{ vfs.FS }

func (w withoutLogs) List(dir string) ([]string, error) {
	names, err := w.FS.List(dir)
	return slices.DeleteFunc(names, func(name string) bool {
		_, isLog := logNumber(w.PathBase(name))
		return isLog
	}), err
}

// logs are those whose writes are not all in data files: by the marks, or else all. Older ones may hold rows
// that were deleted since.
func (s *salvager) logs() (map[uint64]string, error) {
	files, dir := s.from.cfg.FS, s.from.dir
	names, err := logNames(files, dir)
	if err != nil {
		return nil, err
	}
	marks, marked, err := readMarks(files, dir)
	if errors.Is(err, store.ErrCorrupt) {
		s.lost("%s is damaged, so that all logs are taken, and rows that were deleted may be back", marksName)
		return names, nil
	}
	if err != nil {
		return nil, err
	}
	lost, err := lostLogs(files, dir, marks, marked, true)
	if err != nil {
		return nil, err
	}
	for i := range lost {
		s.lost("%s", lost[i].String())
	}
	if marked {
		for number := range names {
			if !slices.Contains(marks.Logs, number) {
				delete(names, number)
			}
		}
	}
	return names, nil
}

// copy writes the rows to the new store.
func (s *salvager) copy(ctx context.Context, rows iter.Seq[version]) error {
	s.batch = s.to.db.NewBatch()
	for row := range rows {
		if row.deleted {
			continue
		}
		if err := s.row(row); err != nil {
			return err
		}
		if s.batch.Len() < salvageBatchBytes {
			continue
		}
		if err := errors.Join(context.Cause(ctx), s.flush()); err != nil {
			return err
		}
	}
	bound := binary.BigEndian.AppendUint64(nil, uint64(s.bound+freshAheadMax))
	return errors.Join(s.batch.Set([]byte{metaSpace, metaBound}, bound, nil), s.flush(), s.to.db.Flush())
}

func (s *salvager) flush() error {
	err := s.to.db.Apply(s.batch, pebbledb.Sync)
	s.batch = s.to.db.NewBatch()
	return err
}

// row copies one row if it can be decoded.
func (s *salvager) row(row version) error {
	var err error
	switch row.key[0] {
	case taskSpace:
		return s.task(row)
	case wakeSpace:
		var w task.Task
		if w, err = store.DecodeWakeup(row.value); err == nil {
			s.report.Wakeups++
			s.met(w.ID)
		}
	case payloadSpace:
		s.report.Payloads++
		if len(row.key) == 1+idLen {
			s.met(task.ID(row.key[1:]))
		}
	case controlSpace:
		if _, err = decodeControl(row.key, row.value); err == nil {
			s.report.Controls++
		}
	default:
		return nil // made anew
	}
	if err != nil {
		s.lost("row %x cannot be decoded: %v", row.key, err)
		return nil
	}
	return s.batch.Set(row.key, row.value, nil)
}

// met moves the bound of ids beyond one.
func (s *salvager) met(id task.ID) {
	if ms, ok := millisOf(id); ok {
		s.bound = max(s.bound, ms+1)
	}
}

// task copies a task row, and makes what finds an ended one.
func (s *salvager) task(row version) error {
	t, err := store.DecodeTask(row.value)
	if err != nil {
		s.lost("task row %x cannot be decoded: %v", row.key[1:], err)
		return nil
	}
	s.report.Tasks++
	s.met(t.ID)
	err = s.batch.Set(row.key, row.value, nil)
	if !t.State.IsEnd() {
		return err
	}
	s.key = appendExpiryKey(s.key[:0], position{t.ExpireAt, t.ID})
	err = errors.Join(err, s.batch.Set(s.key, append(store.AppendPartition(nil, t.Partition), byte(t.State)), nil))
	if t.State == task.Dead {
		s.key = appendIndexKey(s.key[:0], deadSpace, t.Partition, position{t.Ended, t.ID})
		err = errors.Join(err, s.batch.Set(s.key, nil, nil))
	}
	return err
}

// wake gives each live task its wake-up row, if its own was lost.
func (s *salvager) wake(ctx context.Context, out string, c Config) error {
	d, err := Open(out, c)
	if err != nil {
		return err
	}
	err = d.each([]byte{taskSpace}, []byte{taskSpace + 1}, func(_ []byte, value func() ([]byte, error)) (bool, error) {
		content, err := value()
		if err != nil {
			return false, err
		}
		t, err := store.DecodeTask(content)
		if err != nil || t.State.IsEnd() {
			return true, err
		}
		found, err := d.look(wakeKey(nil, &t), nil)
		if found || err != nil {
			return true, err
		}
		bare := task.Task{ID: t.ID, Partition: t.Partition, Seq: t.WakeRow.Seq, Wake: t.WakeRow.At, WakeRow: t.WakeRow}
		results, err := d.Apply(ctx, []store.Op{{Kind: store.PutWakeup, Task: bare}})
		s.report.Woken++
		return true, errors.Join(err, errors.Join(results...))
	})
	return errors.Join(err, d.Close())
}

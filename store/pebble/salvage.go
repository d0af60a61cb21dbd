package pebble

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
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

// Salvage copies every readable row of a store that no process has open to a new store in the directory out,
// which must be empty or absent. It changes nothing in dir. Of each row it takes the newest readable version.
// When the newest was lost that is an older one, so a task may run again and a deleted one may be back.
// Salvage rebuilds the order of expiry, the list of dead letters, and missing wake-up rows of live tasks. It
// calls lost with each thing that cannot be read.
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

// salvager is the state of one Salvage.
type salvager struct {
	from, to *Driver
	report   Salvaged
	lost     func(format string, args ...any)

	batch *pebbledb.Batch // indexed, so that task sees the wake-up rows in it
	bound int64           // no id with a row has reached it
	key   []byte
}

func (s *salvager) run(ctx context.Context, out string, c Config) error {
	if err := checkEmpty(s.from.cfg.FS, out, ""); err != nil {
		return err
	}
	sources, err := s.sources()
	if err != nil {
		return err
	}
	s.to = newDriver(out, c)
	if err := s.to.open(); err != nil {
		return err
	}
	return errors.Join(s.copy(ctx, newest(sources)), s.to.closeFiles())
}

// sources returns the data files and the logs of the store.
func (s *salvager) sources() ([]salvageSource, error) {
	found, err := listDir(s.from.cfg.FS, s.from.dir)
	if err != nil {
		return nil, err
	}
	sources, err := s.namedTables()
	if err != nil {
		s.lost("the list of data files cannot be read or one is missing, so all that are there are used, and deleted rows may be back: %s", firstLine(err))
		for _, name := range found.tables {
			sources = append(sources, salvageSource{all: readTable(s.from, name, s.lost)})
		}
	}
	state, err := s.from.inspectLogs(true)
	if err != nil {
		return nil, err
	}
	for i := range state.lost {
		s.lost("%s", state.lost[i].String())
	}
	for number := range found.logs { // without marks all are read, though older ones may hold rows that were deleted since
		if state.marked && !slices.Contains(state.marks.Logs, number) {
			delete(found.logs, number)
		}
	}
	written := readLogs(s.from, found.logs, s.lost)
	return append(sources, salvageSource{all: slices.Values(written)}), nil
}

// namedTables returns the data files that the manifest names.
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

// withoutLogs is a file system that hides logs. The engine would refuse damaged ones.
type withoutLogs struct{ vfs.FS }

// List implements vfs.FS.
func (w withoutLogs) List(dir string) ([]string, error) {
	names, err := w.FS.List(dir)
	return slices.DeleteFunc(names, func(name string) bool {
		_, isLog := logNumber(w.PathBase(name))
		return isLog
	}), err
}

// copy writes the rows to the new store. They come in the order of their keys: wake-up rows before task rows.
func (s *salvager) copy(ctx context.Context, rows iter.Seq[version]) error {
	s.batch = s.to.db.NewIndexedBatch()
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
	s.batch = s.to.db.NewIndexedBatch()
	return err
}

// row copies one row if it can be decoded.
func (s *salvager) row(row version) error {
	var err error
	switch row.key[0] {
	case taskSpace:
		var t task.Task
		if t, err = store.DecodeTask(row.value); err == nil {
			s.report.Tasks++
			s.met(t.ID)
			err = s.complete(&t)
		}
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
		return nil // rebuilt
	}
	if isCorrupt(err) || store.IsUnreadable(err) {
		s.lost("row %x cannot be decoded: %v", row.key, err)
		return nil
	}
	return errors.Join(err, s.batch.Set(row.key, row.value, nil))
}

// met moves the bound of ids beyond one.
func (s *salvager) met(id task.ID) {
	if ms, ok := millisOf(id); ok {
		s.bound = max(s.bound, ms+1)
	}
}

// complete writes what belongs to a task row: the index entries of an ended one, and the wake-up row of a
// live one if it was lost.
func (s *salvager) complete(t *task.Task) error {
	if !t.State.IsEnd() {
		s.key = wakeKey(s.key[:0], t)
		_, closer, err := s.batch.Get(s.key)
		if err == nil {
			return closer.Close()
		}
		if !errors.Is(err, pebbledb.ErrNotFound) {
			return err
		}
		s.report.Woken++
		bare := task.Task{ID: t.ID, Partition: t.Partition, Seq: t.WakeRow.Seq, Wake: t.WakeRow.At, WakeRow: t.WakeRow}
		return s.batch.Set(s.key, store.AppendTask(nil, &bare), nil)
	}
	s.key = appendExpiryKey(s.key[:0], position{t.ExpireAt, t.ID})
	err := s.batch.Set(s.key, append(store.AppendPartition(nil, t.Partition), byte(t.State)), nil)
	if t.State == task.Dead {
		s.key = appendIndexKey(s.key[:0], deadSpace, t.Partition, position{t.Ended, t.ID})
		err = errors.Join(err, s.batch.Set(s.key, nil, nil))
	}
	return err
}

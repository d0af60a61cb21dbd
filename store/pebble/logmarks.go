package pebble

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
)

// The engine replays the logs that it finds. It does not know which logs there were, nor where the newest one
// ended, so a store whose log is missing or cut would start without acknowledged tasks and without an error.
// logMarks keeps both in a synced file beside the logs:
//
//   - The numbers of the logs whose writes are not all in data files. A log is added once its name is on disk
//     and before its first write, and taken off before it is deleted or reused. So a log that is in the file
//     but not in the directory was taken away.
//   - How far the newest log reaches, as a sequence number. It is written up to markAfter after a sync, by a
//     goroutine that no write waits for. Only the marks inside the log protect what is acknowledged after
//     that.
//
// The file has two slots of one block each, written in turns. A crash tears at most the slot that is being
// written. The other one still holds, because whatever relies on a record waits for its sync.
const (
	marksName      = "acknowledged"
	marksTempName  = marksName + ".new"
	marksSlotBytes = 4096
	markAfter      = 100 * time.Millisecond
)

// marksLogsMax bounds the logs in a record, so that it fits into a slot. The engine has a handful.
const marksLogsMax = 64

// marksRecord is the content of a slot.
type marksRecord struct {
	Generation uint64   `json:"generation"`    // the higher one counts
	New        bool     `json:"new,omitempty"` // the store is being created: nothing in it was ever acknowledged
	Logs       []uint64 `json:"logs"`          // oldest first
	Through    uint64   `json:"through"`       // the newest log has all writes before this sequence number; 0: not known
}

type logMarks struct {
	files vfs.FS
	dir   string
	fail  func(error)

	current atomic.Uint64 // number of the newest log
	due     *time.Timer   // fires when tail has to be written

	mu      sync.Mutex // held while writing
	file    vfs.File   // nil until begin
	opening bool       // the engine replays: when it creates a log, all others are in data files
	record  marksRecord

	noted   sync.Mutex // never held while writing, because the goroutine that answers callers takes it
	tailLog uint64     // a log,
	tail    uint64     // and how far it is on disk
	armed   bool       // due runs
}

func newLogMarks(files vfs.FS, dir string, fail func(error)) *logMarks {
	m := &logMarks{files: files, dir: dir, fail: fail, due: time.NewTimer(markAfter), opening: true}
	m.due.Stop()
	return m
}

// readMarks returns the record of a directory. found is false when there is no file; the error is
// store.ErrCorrupt when no slot is valid.
func readMarks(files vfs.FS, dir string) (r marksRecord, found bool, err error) {
	content, err := readFile(files, files.PathJoin(dir, marksName))
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	for slot := range slices.Chunk(content, marksSlotBytes) {
		if one, ok := decodeMarks(slot); ok && (!found || one.Generation > r.Generation) {
			r, found = one, true
		}
	}
	if !found {
		return r, true, fmt.Errorf("%w: neither slot is valid", store.ErrCorrupt)
	}
	return r, true, nil
}

// encodeMarks returns a slot: a checksum, a space and one line of JSON, so that a person can read it.
func encodeMarks(r marksRecord) ([]byte, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	slot := bytes.Repeat([]byte{'\n'}, marksSlotBytes)
	copy(slot, fmt.Appendf(nil, "%08x %s", crc32.Checksum(line, castagnoli), line))
	return slot, nil
}

func decodeMarks(slot []byte) (r marksRecord, ok bool) {
	sum, line, _ := bytes.Cut(bytes.TrimRight(slot, "\n"), []byte{' '})
	want, err := strconv.ParseUint(string(sum), 16, 32)
	if err != nil || uint32(want) != crc32.Checksum(line, castagnoli) {
		return r, false
	}
	return r, json.Unmarshal(line, &r) == nil
}

// begin opens the file that holds r, or creates one. Before it nothing is written.
func (m *logMarks) begin(r marksRecord, found bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := m.files.PathJoin(m.dir, marksName)
	if !found {
		if err := m.create(path, r); err != nil {
			return err
		}
	}
	var err error
	m.record = r
	m.file, err = m.files.OpenReadWrite(path, vfs.WriteCategoryUnspecified)
	return err
}

// opened notes that the engine has replayed the logs and that the store is ready for its first write.
func (m *logMarks) opened() error {
	m.mu.Lock()
	if m.opening = false; m.file == nil {
		logs := m.record.Logs
		m.mu.Unlock()
		return m.begin(marksRecord{Logs: logs}, false)
	}
	defer m.mu.Unlock()
	if !m.record.New {
		return nil
	}
	m.record.New = false
	return m.write()
}

// create writes both slots to a file with another name and renames it, so that a crash leaves no file or a
// whole one.
func (m *logMarks) create(path string, r marksRecord) error {
	slot, err := encodeMarks(r)
	if err != nil {
		return err
	}
	temp := m.files.PathJoin(m.dir, marksTempName)
	file, err := m.files.Create(temp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = file.Write(append(slot, slot...))
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := m.files.Rename(temp, path); err != nil {
		return err
	}
	return syncDir(m.files, m.dir)
}

// write makes the record the newest one on disk. A failure ends the store, as a failure of the log does.
func (m *logMarks) write() error {
	if m.file == nil {
		return nil
	}
	m.record.Generation++
	slot, err := encodeMarks(m.record)
	if err == nil {
		_, err = m.file.WriteAt(slot, int64(m.record.Generation%2)*marksSlotBytes)
	}
	if err == nil {
		err = m.file.SyncData()
	}
	if err != nil {
		err = fmt.Errorf("write %s: %w", marksName, err)
		m.fail(err)
	}
	return err
}

// created adds a log whose name is on disk and that has no writes yet.
func (m *logMarks) created(number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.current.Store(number)
	if m.opening {
		m.record.Logs = m.record.Logs[:0]
	}
	m.record.Logs = append(m.record.Logs, number)
	m.record.Logs = slices.Delete(m.record.Logs, 0, max(0, len(m.record.Logs)-marksLogsMax))
	m.record.Through = 0
	_ = m.write()
}

// forget takes a log off before its file goes; it ignores other files.
func (m *logMarks) forget(name string) error {
	number, isLog := logNumber(name)
	m.mu.Lock()
	defer m.mu.Unlock()
	if !isLog || !slices.Contains(m.record.Logs, number) {
		return nil
	}
	m.record.Logs = slices.DeleteFunc(m.record.Logs, func(n uint64) bool { return n == number })
	return m.write()
}

// note remembers that a log is on disk up to a sequence number.
func (m *logMarks) note(log, through uint64) {
	m.noted.Lock()
	defer m.noted.Unlock()
	m.tailLog, m.tail = log, through
	m.arm()
}

// flushed notes that some logs may not be needed any more.
func (m *logMarks) flushed() {
	m.noted.Lock()
	defer m.noted.Unlock()
	m.arm()
}

func (m *logMarks) arm() {
	if !m.armed {
		m.armed = true
		m.due.Reset(markAfter)
	}
}

// mark writes what changed since the last time. live returns the number of logs with writes that are in no
// data file.
func (m *logMarks) mark(live func() int) {
	m.noted.Lock()
	log, tail := m.tailLog, m.tail
	m.armed = false
	m.noted.Unlock()

	newest := m.current.Load()
	n := live() // takes locks of the engine, under which it calls created
	m.mu.Lock()
	defer m.mu.Unlock()
	changed := log == m.current.Load() && tail > m.record.Through
	if changed {
		m.record.Through = tail
	}
	if old := len(m.record.Logs) - max(n, 1); old > 0 && newest == m.current.Load() {
		m.record.Logs, changed = slices.Delete(m.record.Logs, 0, old), true
	}
	if changed {
		_ = m.write()
	}
}

// end closes the file. With clean all writes are in data files, and no log is needed.
func (m *logMarks) end(clean bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.due.Stop()
	if m.file == nil {
		return nil
	}
	var err error
	if clean {
		m.record.Logs, m.record.Through = nil, 0
		err = m.write()
	}
	err = errors.Join(err, m.file.Close())
	m.file = nil
	return err
}
